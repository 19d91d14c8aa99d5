"""Function libraries beyond CEL's standard library, one per module.

functions                                                        declarations of functions: a signature and an implementation
standard                                                         differences from CEL's standard library
regex, urls, addresses, semver, quantities, formats, aggregates  Kubernetes' libraries
kro                                                              kro's functions
"""
