"""A training that is interrupted when it suits a test."""

from __future__ import annotations

import signal

from unire.training.callbacks import Callback


class InterruptAfter(Callback):
    """Presses Ctrl-C at the end of an epoch."""

    def __init__(self, epoch):
        self.last = epoch

    def on_epoch_end(self, record):
        if record["epoch"] == self.last:
            signal.raise_signal(signal.SIGINT)
