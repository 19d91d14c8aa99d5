"""Request handlers of the API server, by verb.

Reading order:
`write`: create, update and patch.
`read`: get and list.
`watch`: event streams.
`response`: the form of returned objects.
`delete`: delete and deletecollection.
`subresource`, `scale`: subresources.
`connect`: exec, attach, port-forward and proxy.
`review`: SubjectAccessReview and other reviews, which are not stored.
"""
