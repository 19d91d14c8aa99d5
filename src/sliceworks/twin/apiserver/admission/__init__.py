"""Admission: the plugins that kube-apiserver enables by default, and webhooks of installed systems.

Reading order:
`chain`: the attributes of a write, and the order in which plugins and webhooks run.
`service_account`, `priority`, `toleration`, `limit_ranger`, `storage_class`: plugins named after upstream's.
`certificate_signing`: approval, signing and subjects of CertificateSigningRequests.
`pod_security`, `pod_security_checks`: the PodSecurity plugin and the Pod Security Standards.
`resource_quota`: usage of objects and the charge of a write.
`match_criteria`: rules, selectors and match conditions of webhooks and policies.
`webhook_dispatcher`: mutating and validating webhooks.
`validating_policy`: ValidatingAdmissionPolicies with bindings and params.
`type_checking`: their expressions against the types of the kinds they match.
`policy_variables`, `mutating_policy`: composed variables, and MutatingAdmissionPolicies.
`dynamic_admission`: parses the objects that configure webhooks and policies, and runs them.
"""
