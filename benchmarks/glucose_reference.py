r"""What the simulator simglucose says of the virtual patients: the reference that tests/local_training/worlds/test_glucose.py compares
the world `glucose` with.

It needs an environment of its own, because simglucose wants a gym that cannot live beside today's Gymnasium:

    python3 -m venv other && other/bin/pip install --no-deps simglucose==0.2.11
    other/bin/pip install numpy pandas scipy setuptools==70.0.0
    other/bin/python benchmarks/glucose_reference.py > tests/local_training/worlds/simglucose.json

Two meals are eaten, and the pump gives three times the basal rate for a while, and later nothing. It takes about a minute.
"""

import json
import sys
import types
import warnings

for name in (
    "gym",
    "gym.envs",
    "gym.envs.registration",
):  # which it imports, and a patient does not use
    sys.modules[name] = types.ModuleType(name)
sys.modules["gym.envs.registration"].register = lambda **_: None
warnings.filterwarnings("ignore")

from simglucose.patient.t1dpatient import Action, T1DPatient  # noqa: E402

MINUTES, EVERY = 600, 40


def glucose(number):
    """Returns mg/dl in plasma and under the skin of a patient every 40 minutes."""
    patient, found = T1DPatient.withID(number), []
    basal = patient._params.u2ss * patient._params.BW / 6000  # U/min
    for minute in range(MINUTES):
        meal = {60: 60, 300: 40}.get(minute, 0)
        times = 3 if 60 <= minute < 150 else 0 if 400 <= minute < 420 else 1
        patient.step(Action(insulin=basal * times, CHO=meal))
        if (minute + 1) % EVERY == 0:
            volume = patient._params.Vg
            found.append(
                [round(patient.state[3] / volume, 3), round(patient.state[12] / volume, 3)]
            )
    return found


json.dump({"every": EVERY, "glucose": [glucose(number) for number in range(1, 31)]}, sys.stdout)
print()
