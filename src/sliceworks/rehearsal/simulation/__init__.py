"""Simulation of a whole platform: steps, observers, incidents, and whether the expectations of the Scenario hold.

runner                                                         runs all steps and returns the record
steps                                                          duration and result of each step
deployment                                                     applies and removes the environment and the model services
load_test, real_time                                           load tests: real processes beside a twin in virtual time
observer                                                       observes every change of the twin's store
job_observer, pool_observer, chip_observer, instance_observer  what each kind of object did
incidents                                                      disruptions, preemptions, stockouts, and the response
expectations                                                   checks the expectations against the record
"""
