"""What a monitoring system asks a broker over HTTP or is sent: /metrics, /health, /ready, and OpenTelemetry.

It runs beside the broker, on a thread of its own. The broker's thread is asked for snapshots of its numbers, and never waits.
"""
