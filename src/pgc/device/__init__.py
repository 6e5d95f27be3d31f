"""A real device: it drives steps 2 and 3 for one agent, and keeps the agent's budget in a file.

`Device` is the only way by which anything leaves it. It charges its ledger before step 2 and stores
what step 3 drew before anything is sent. NumPy is all that it needs.
"""

from pgc.device.device import RELEASABLE, Device, Player, Refusal, Unanswered
from pgc.device.ledger import Balance, Ledger, LedgerError, OtherOffer

__all__ = [
    "RELEASABLE", "Balance", "Device", "Ledger", "LedgerError", "OtherOffer", "Player", "Refusal",
    "Unanswered",
]  # fmt: skip
