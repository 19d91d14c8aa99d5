"""An attack on a running twin, gateway, console and controllers at once, counted.

Reading order: `targets` starts the processes, `requests` counts what they answer, `health` measures probes, `on_twin` and
`on_servers` are the attacks, `campaign` runs all of them and prints the figures:

    python -m tests.heavy.attack.campaign --seconds 300
    python -m tests.heavy.attack.campaign --seconds 10 --each
"""
