"""The agent that a fleet embeds: a durable budget, and the only door through which anything leaves a real device."""

from pgc.device.device import Device, Refusal
from pgc.device.ledger import Ledger, LedgerError

__all__ = ["Device", "Ledger", "LedgerError", "Refusal"]
