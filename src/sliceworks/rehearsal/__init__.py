"""Rehearsals: documents and scenarios run on a twin in virtual time.

- events: plans and runs the events of a Scenario
- event_actions: actions on queues and on the twin's cloud
- timeline: changes of objects over time
- drill: kills programs at random
- basic_run: applies documents without steps
- record: the record of a run
- simulation: runs all steps and observes the twin
- report: terminal summary and HTML report
- forecast: start and end times of queued jobs
"""
