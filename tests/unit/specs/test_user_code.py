"""User code: what it raises becomes an error of ours, and only a real signal interrupts."""

from __future__ import annotations

import pickle
import signal
import threading

import pytest

from tidegate.cli.invocation import understand
from tidegate.errors import CommitLost, SourceError, StateError, TidegateError, chain, nearest_own, safe_text
from tidegate.signals import is_interrupted, noticing_interrupts, signals_go_to
from tidegate.specs.masking import Mask
from tidegate.specs.user_code import CodeFailed, call, contain_errors, name_errors, show


class _Shy(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class _Lost(CommitLost):
    """A class of the user's own, made in another way."""

    def __init__(self, table: str, *, version: int) -> None:
        super().__init__(f"{table} is at {version}", "plan again")

    def __str__(self) -> str:
        raise RuntimeError


class _Fussy(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


def test_what_cannot_be_printed_has_a_text() -> None:
    assert "_Shy" in safe_text(_Shy())
    problem = understand(_Shy("x"))
    assert problem.kind == "_Shy"
    assert problem.exit_code == 70
    assert "_Shy" in problem.problems[0]


def test_a_mask_survives_errors_that_cannot_be_printed_or_made_again() -> None:
    mask = Mask.of("swordfish")
    assert mask.cause(_Shy("x")) is not None
    masked = mask.error(_Fussy("the", "swordfish"))
    assert "swordfish" not in f"{masked} {masked!r}"
    own = mask.error(_Lost("swordfish", version=3))
    assert isinstance(own, TidegateError)
    assert "swordfish" not in repr(own.args)


def test_errors_that_are_their_own_cause_are_looked_at_once() -> None:
    error = ValueError("round")
    error.__cause__ = error
    assert list(chain(error)) == [error]
    assert Mask.of("swordfish").cause(error) is error


@pytest.mark.parametrize("error", [SystemExit("out"), GeneratorExit(), _Shy(), KeyboardInterrupt()])
def test_what_ends_a_process_is_an_error_of_the_code(error: BaseException) -> None:
    with (
        signals_go_to(lambda: None, (signal.SIGTERM,)),
        pytest.raises(StateError) as caught,
        name_errors("provider p", "correct it", StateError),
    ):
        raise error
    assert type(error).__name__ in caught.value.problem
    assert caught.value.remedy == "correct it"
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), StateError)


def test_an_error_of_a_class_derived_from_ours_is_the_nearest_of_ours() -> None:
    with pytest.raises(CommitLost) as caught, contain_errors():
        raise _Lost("orders", version=7)
    assert type(caught.value) is CommitLost
    assert caught.value.problem == "orders is at 7"
    assert nearest_own(SourceError("x")).problem == "x"
    assert nearest_own(SourceError(7)).problem == "7"  # type: ignore[arg-type]


def test_a_long_text_ends_with_a_mark_by_which_a_later_mask_sees_the_cut() -> None:
    def long() -> None:
        raise ValueError("x" * 280 + "swordfish-20261118")

    with pytest.raises(SourceError) as caught:
        call(long, "watermark_window", "correct it")
    assert caught.value.problem.endswith("…")
    assert "swordf" not in Mask.of("swordfish-20261118")(caught.value.problem)


def test_a_result_that_cannot_be_printed_is_shown_by_its_class() -> None:
    assert show(_Shy(), Mask()) == "a _Shy"
    assert show(["x" * 100], Mask()).endswith("…")


def test_only_a_signal_that_a_handler_saw_interrupts() -> None:
    with signals_go_to(lambda: None, (signal.SIGUSR1,)):
        assert not is_interrupted()
        with pytest.raises(CodeFailed), contain_errors():
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGUSR1)
        assert is_interrupted()
        with pytest.raises(KeyboardInterrupt), contain_errors():
            raise KeyboardInterrupt
    with signals_go_to(lambda: None, (signal.SIGUSR1,)):
        assert not is_interrupted()


def test_ctrl_c_is_noticed_by_commands() -> None:
    # Whoever started the tests may have left the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with noticing_interrupts():
            assert not is_interrupted()
            with pytest.raises(KeyboardInterrupt), contain_errors():
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noticing_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_reach_only_the_main_thread() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_interrupted()))
    thread.start()
    thread.join()
    assert found == [False]
    assert is_interrupted()
