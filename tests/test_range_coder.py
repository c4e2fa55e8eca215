"""Single decisions: coded and decoded alike, at what information theory says they cost."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intrinsic_kernels import code_decision, compiled

from cscodec.kernels.mixing import (
    COST,
    LOGIT_LIMIT,
    MAX_INPUTS,
    MIN_PROBABILITY,
    RECIPROCAL,
    SLOT_LIMIT,
    SQUASH,
    STRETCH,
    WEIGHT_LIMIT,
    WEIGHT_ONE,
)
from cscodec.kernels.range_coder import HIGH, LOW, POSITION, STATE_SIZE, WINDOW, code_bit

State = npt.NDArray[np.int64]
EVEN = 32768
Decision = tuple[int, int]  # probability of one, bit


def new_state(data: bytes = b"") -> State:
    state = np.zeros(STATE_SIZE, np.int64)
    state[HIGH] = 0xFFFFFFFF
    if data:
        state[POSITION] = 4
        state[WINDOW] = int.from_bytes(data[:4].ljust(4, b"\0"), "big")
    return state


def finish(state: State, buffer: npt.NDArray[np.uint8]) -> bytes:
    """All bytes written, and a number in the last interval; the codec's own end is shorter."""
    assert state[POSITION] + 4 <= len(buffer)
    return buffer[: state[POSITION]].tobytes() + int(state[LOW]).to_bytes(4, "big")


def encoded(decisions: list[Decision]) -> bytes:
    state, buffer = new_state(), np.empty(4 * len(decisions) + 8, np.uint8)
    for probability, bit in decisions:
        assert code_bit(state, buffer, False, probability, bit) == bit
    return finish(state, buffer)


def decoded(data: bytes, probabilities: list[int]) -> list[int]:
    state, buffer = new_state(data), np.frombuffer(data, np.uint8).copy()
    return [code_bit(state, buffer, True, p, 0) for p in probabilities]


probabilities = st.integers(1, 65535) | st.sampled_from([1, MIN_PROBABILITY, EVEN, 65535])


@given(st.lists(st.tuples(probabilities, st.integers(0, 1)), max_size=400))
def test_decisions_come_back(decisions: list[Decision]) -> None:
    restored = decoded(encoded(decisions), [p for p, _ in decisions])
    assert restored == [bit for _, bit in decisions]


@pytest.mark.parametrize("probability", [1, MIN_PROBABILITY, EVEN, 65536 - MIN_PROBABILITY, 65535])
@pytest.mark.parametrize("bit", [0, 1])
def test_long_runs_at_extreme_probabilities_come_back(probability: int, bit: int) -> None:
    decisions = [(probability, bit)] * 3000
    data = encoded(decisions)
    assert decoded(data, [probability] * 3000) == [bit] * 3000
    share = (probability if bit else 65536 - probability) / 65536
    assert 8 * len(data) == pytest.approx(-3000 * math.log2(share), rel=0.02, abs=40)


def test_intervals_around_a_carry_lose_neither_bits_nor_order() -> None:
    # Always into the part with the border between two leading bytes: it gets as narrow as it can.
    generator = np.random.default_rng(0)
    border, state, buffer = 1 << 31, new_state(), np.empty(100_000, np.uint8)
    decisions, narrowest = [], 1 << 32
    for _ in range(5000):
        low, high = int(state[LOW]), int(state[HIGH])
        probability = int(generator.integers(1, 65536))
        middle = low + ((high - low) >> 16) * probability
        middle += (((high - low) & 0xFFFF) * probability) >> 16
        bit = int(middle >= border)
        code_bit(state, buffer, False, probability, bit)
        decisions.append((probability, bit))
        narrowest = min(narrowest, int(state[HIGH] - state[LOW]))
    assert narrowest < 1 << 8
    data = finish(state, buffer)
    assert decoded(data, [p for p, _ in decisions]) == [bit for _, bit in decisions]


def test_length_is_that_of_the_information() -> None:
    generator = np.random.default_rng(1)
    chances = generator.integers(MIN_PROBABILITY, 65536 - MIN_PROBABILITY, 30_000)
    bits = generator.uniform(0, 65536, len(chances)) < chances
    data = encoded([(int(p), int(bit)) for p, bit in zip(chances, bits, strict=True)])
    information = -np.log2(np.where(bits, chances, 65536 - chances) / 65536).sum()
    assert information <= 8 * len(data) < 1.001 * information + 64


class TestTables:
    def test_squash_is_the_logistic_function(self) -> None:
        logits = np.arange(-2048, 2048) / 256
        logistic = np.maximum(65536 / (1 + np.exp(-logits)), MIN_PROBABILITY)
        np.testing.assert_allclose(SQUASH, logistic, atol=600, rtol=0.1)
        assert (np.diff(SQUASH.astype(int)) >= 0).all()
        assert SQUASH.min() == MIN_PROBABILITY
        assert SQUASH.max() == 65536 - MIN_PROBABILITY
        assert len(SQUASH) == 2 * LOGIT_LIMIT + 2

    def test_stretch_undoes_squash(self) -> None:
        assert (np.diff(STRETCH.astype(int)) >= 0).all()
        inside = np.arange(16, 4080)
        np.testing.assert_allclose(
            SQUASH[STRETCH[inside].astype(int) + 2048], 16 * inside + 8, rtol=0.02, atol=60
        )
        assert np.abs(STRETCH).max() <= LOGIT_LIMIT + 1

    def test_costs_are_logarithms(self) -> None:
        expected = -256 * np.log2(np.arange(1, 4097) / 4096)
        np.testing.assert_allclose(COST[1:], expected, atol=1.01)
        assert COST[0] == COST[1]

    def test_rates_fall_with_experience(self) -> None:
        assert len(RECIPROCAL) == SLOT_LIMIT + 1
        assert (np.diff(RECIPROCAL.astype(int)) < 1).all()
        assert RECIPROCAL[0] < 65536
        assert RECIPROCAL[-1] > 0


class Mixed:
    """Coding with mixed contexts: two of three slots say something about the bit."""

    def __init__(self, data: bytes = b"") -> None:
        self.decoding = bool(data)
        self.state = new_state(data)
        self.data = np.frombuffer(data, np.uint8).copy() if data else np.empty(100_000, np.uint8)
        self.slots = np.full(64, (EVEN << 16) | (1 << 15), np.uint32)
        self.weights = np.full((4, MAX_INPUTS), WEIGHT_ONE // 6, np.int32)
        self.logits = np.zeros(MAX_INPUTS, np.int32)

    def code(self, contexts: tuple[int, int, int], bit: int = 0) -> int:
        found = np.array([bit])
        arrays = self.slots, self.weights, self.logits, np.array(contexts, np.int64)
        compiled()["code_decision"](self.state, self.data, self.decoding, *arrays, found)
        return int(found[0])

    def adapted(self) -> list[npt.NDArray[np.generic]]:
        return [self.slots, self.weights]


def test_llvm_code_does_what_its_python_says() -> None:
    """Also at the limits of probabilities and weights, and for slots just made."""
    generator = np.random.default_rng(4)
    for _ in range(300):
        fast, plain = Mixed(), Mixed()
        chances = generator.choice([0, 1, 32, 2**21, 2**22 - 1, -1], 64)
        chances = np.where(chances < 0, generator.integers(0, 2**22, 64), chances)
        counts = generator.choice([0, 1, 7, SLOT_LIMIT - 1, SLOT_LIMIT], 64)
        fast.slots[:] = plain.slots[:] = (chances << 10) | counts
        limits = [-WEIGHT_LIMIT, -1, 0, 1, WEIGHT_ONE, WEIGHT_LIMIT]
        fast.weights[:] = plain.weights[:] = generator.choice(limits, fast.weights.shape)
        contexts = tuple(int(k) for k in generator.choice(64, 3, replace=False))
        bit = int(generator.integers(2))
        fast.code(contexts, bit)  # type: ignore[arg-type]
        code_decision.function(
            plain.state, plain.data, False, plain.slots, plain.weights, plain.logits,
            np.array(contexts), np.array([bit]),
        )  # fmt: skip
        assert fast.state.tolist() == plain.state.tolist()
        np.testing.assert_array_equal(fast.logits, plain.logits)
        for ours, theirs in zip(fast.adapted(), plain.adapted(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (fast.slots >> 10).max() < 2**22


def test_a_decoder_learns_what_the_encoder_learned() -> None:
    generator = np.random.default_rng(2)
    hidden = generator.integers(0, 8, 4000)
    chances = np.array([0.01, 0.05, 0.2, 0.4, 0.6, 0.9, 0.97, 0.999])[hidden]
    bits = (generator.uniform(size=4000) < chances).astype(int)
    contexts = [(int(h), 10 + int(h) // 2, 20 + k % 3) for k, h in enumerate(hidden)]
    encoder = Mixed()
    for context, bit in zip(contexts, bits, strict=True):
        assert encoder.code(context, int(bit)) == bit
    data = finish(encoder.state, encoder.data)
    information = -np.log2(np.where(bits, chances, 1 - chances)).sum()
    assert 8 * len(data) < 1.15 * information + 100
    decoder = Mixed(data)
    assert [decoder.code(context) for context in contexts] == bits.tolist()
    for ours, theirs in zip(decoder.adapted(), encoder.adapted(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert int(decoder.state[POSITION]) - 4 == int(encoder.state[POSITION])


@pytest.mark.parametrize("bit", [0, 1])
def test_certainty_stays_within_its_limits(bit: int) -> None:
    encoder = Mixed()
    encoder.weights[:] = WEIGHT_LIMIT
    for _ in range(5000):
        encoder.code((0, 1, 2), bit)
    assert np.abs(encoder.weights).max() <= WEIGHT_LIMIT
    assert (encoder.slots[:3] & 1023).max() == SLOT_LIMIT
    assert 8 * int(encoder.state[POSITION]) < 5000 * 0.01  # no dearer than the least probability
    surprise = Mixed()
    surprise.slots[:], surprise.weights[:] = encoder.slots, encoder.weights
    surprise.code((0, 1, 2), 1 - bit)  # and the opposite can still be said
    again = Mixed(finish(surprise.state, surprise.data))
    again.slots[:], again.weights[:] = encoder.slots, encoder.weights
    assert again.code((0, 1, 2)) == 1 - bit
