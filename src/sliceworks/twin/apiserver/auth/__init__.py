"""Authentication and authorization.

Reading order:
`authentication`: the user of a request.
`rbac`: the RBAC authorizer.
`escalation`: privilege escalation checks.
`service_account_token`: the token issuer and TokenRequest.
`certificates`: the certificate authority and its certificates.
"""
