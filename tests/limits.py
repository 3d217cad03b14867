"""The one limit of time: tests wait for events, however long these take on a busy machine."""

#: Seconds after which a test hangs; none takes a tenth of that by itself.
HANGS = 1200
