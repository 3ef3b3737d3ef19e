"""Events of a made-up shop, for tests of journals."""

from hashlib import sha256

import bdes_framework as bdes


def model(number: int, read: int, data: bytes) -> bdes.ModelMade:
    return bdes.ModelMade(number, read, sha256(data).hexdigest(), data, "0.1", 2.5)


def story(n: int, n_models: int = 1) -> list[bdes.Event]:
    """Return events of every kind, with ``n`` decisions and half as many rewards."""
    events: list[bdes.Event] = [bdes.ArmAdded(0, "clip", 1.0), bdes.ArmAdded(1, "èss'ay\n", 1.5)]
    events += [model(number, 2 + number, b"model" * 2000) for number in range(n_models)]
    for number in range(n):
        if number % 3 == 0:
            events.append(bdes.NewUser(number // 3, f"user {number // 3} of us"))
        arm = number % 2
        events.append(
            bdes.Decided(number, number // 3, arm, 0, 0.93 if arm else 1.0, 0, 1e9 + number / 7)
        )
        if number % 2:
            events.append(bdes.Rewarded(number, number / (2 * n), 1e9, is_late=number % 5 == 0))
    events.append(bdes.WindowsClosed(n // 2, 0.0, 5.0))
    events.append(bdes.WindowsClosed(n, None, 5.5))
    events.append(bdes.ArmRetired(1, 6.0))
    return events
