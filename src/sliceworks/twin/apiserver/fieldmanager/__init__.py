"""Field ownership and server-side apply, after upstream's structured-merge-diff and `fieldmanager`.

Reading order:
`fieldpath`: field sets in the form of FieldsV1.
`typed_value`: how a schema divides values into fields.
`merge`: compare, merge and remove fields of typed values.
`managed_fields`: the entries of `metadata.managedFields`.
`updater`: ownership after an update, and server-side apply.
"""
