"""Patches, as kube-apiserver applies them.

Reading order:
`patcher`: the patch of a request, applied to an object.
`jsonpatch`: JSON patch and merge patch.
`strategic_merge`: strategic merge patch.
"""
