"""What a device pays: import, memory and size of the base install, and the time of a release with and without its durable charge.

    python benchmarks/device.py [FOLDER_ON_THE_DISK_TO_MEASURE]

Prints JSON. Times are medians, in milliseconds; beside each stands its ratio to a plain 4 KiB write and fsync in the same folder.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pgc
from pgc.device.device import Device
from pgc.randomise.mechanisms.registry import make_mechanism
from pgc.randomise.release import release
from pgc.wire import Offer, Query

DIM, TIMES = 112, 60
CASES = {
    "duchi": {}, "prs": {}, "prs-sign": {}, "index, M = 256": {"code_size": 256}, "index, M = 1024": {"code_size": 1024},
    "index, M = 4096": {"code_size": 4096}, "laplace": {},
}  # fmt: skip
IMPORT = """
import sys, time
def memory():
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
begun = time.perf_counter()
import numpy
with_numpy, numpy_memory = time.perf_counter(), memory()
from pgc import Device, Offer
print(with_numpy - begun, time.perf_counter() - with_numpy, numpy_memory, memory(), "jax" in sys.modules)
"""


def median_ms(work, times=TIMES) -> float:
    taken = []
    for number in range(times):
        begun = time.perf_counter()
        work(number)
        taken.append(1000 * (time.perf_counter() - begun))
    return statistics.median(taken)


def size_mb(folder: Path) -> float:
    return (
        sum(
            f.stat().st_size
            for f in folder.rglob("*")
            if f.is_file() and "__pycache__" not in f.parts
        )
        / 2**20
    )


def main() -> None:
    command = [sys.executable, "-c", IMPORT]
    imports = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(7)
    ]
    numpy_s, pgc_s, numpy_kb, all_kb = (
        statistics.median(float(row[i]) for row in imports) for i in range(4)
    )
    assert all(row[4] == "False" for row in imports)
    result = {
        "import_numpy_ms": 1000 * numpy_s,
        "import_pgc_on_top_ms": 1000 * pgc_s,
        "memory_numpy_mb": numpy_kb / 1024,
        "memory_with_device_mb": all_kb / 1024,
        "size_pgc_mb": size_mb(Path(pgc.__file__).parent),
        "size_numpy_mb": size_mb(Path(np.__file__).parent)
        + size_mb(Path(np.__file__).parents[1] / "numpy.libs"),
    }
    g = np.random.default_rng(0).standard_normal(DIM)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:

        def plain_write(number: int) -> None:
            descriptor = os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, bytes(4096))
            os.fsync(descriptor)
            os.close(descriptor)

        fsync = result["plain_write_and_fsync_ms"] = median_ms(plain_write)
        device = Device.create(Path(folder) / "ledger.db", 900.0)
        for case, options in CASES.items():
            mechanism = make_mechanism(
                case.partition(",")[0], dim=DIM, epsilon=1.0, clip=1.0, **options
            )
            result[f"release, {case}, ms"] = median_ms(
                lambda n, m=mechanism: release(m, g, b"%d" % n)
            )
            query = Query.of(mechanism)
            offers = [
                Offer(
                    offer_id=len(result) * 1000 + n,
                    policy_version=1,
                    query=query,
                    theta=np.zeros(DIM, np.float32),
                ).encode()
                for n in range(TIMES)
            ]
            charged = median_ms(lambda n, offers=offers: device.release(offers[n], g))
            result[f"release and durable charge, {case}, ms"] = charged
            result[f"release and durable charge, {case}, plain writes"] = charged / fsync
    print(
        json.dumps(
            {key: round(value, 3) for key, value in result.items()}, indent=1, ensure_ascii=False
        )
    )


if __name__ == "__main__":
    main()
