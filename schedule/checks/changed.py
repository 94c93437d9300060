"""What a step changed: found once for all checks that ask about it."""

from __future__ import annotations

from schedule.state import State


class Changed:
    """The nests at the root that a step took away and those that it `made`, and in these, in
    program order, all blocks and those that are new or other ones themselves, not their loops."""

    __slots__ = ("after", "before", "blocks", "made", "new", "old", "taken")

    def __init__(self, before: State, after: State) -> None:
        self.before, self.after = before, after
        self.taken, self.made = before.nests_beside(after), after.nests_beside(before)
        self.old = {block for nest in self.taken for block in nest.blocks.values()}
        self.blocks = [block for nest in self.made for block in nest.blocks.values()]
        self.new = [block for block in self.blocks if block not in self.old]
