"""The order in which pipelines run: whoever reads the table of another one comes after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def ordered(names: Sequence[str], needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """``names``, each after all that it needs, and otherwise in their order; a cycle is broken where it closes.

    >>> ordered(["answers", "surveys", "other"], {"answers": ["surveys"]})
    ('surveys', 'answers', 'other')
    """
    done: dict[str, None] = {}
    waiting = [*reversed(names)]
    begun: set[str] = set()
    while waiting:
        name = waiting.pop()
        first = [each for each in names if each in needs.get(name, ()) and each not in begun]
        if name in begun or not first:
            begun.add(name)
            done.setdefault(name)
        else:
            begun.add(name)
            waiting += [name, *reversed(first)]
    return tuple(done)


def cycle(names: Sequence[str], needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Names of which each needs the next and the last needs the first; empty where there is no such circle.

    >>> cycle(["a", "b", "c"], {"a": ["b"], "b": ["c"], "c": ["b"]})
    ('b', 'c')
    """
    free: set[str] = set()
    for name in names:
        way: list[str] = [name]
        while way:
            ahead = next((each for each in names if each in needs.get(way[-1], ()) and each not in free), None)
            if ahead is None:
                free.add(way.pop())
            elif ahead in way:
                return tuple(way[way.index(ahead) :])
            else:
                way.append(ahead)
    return ()
