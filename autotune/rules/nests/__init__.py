"""The general nest of every block: tiles, orders, lanes, threads, and where producers are computed.

    stage.py    what is open in one block's own loops
    places.py   where a producer is computed: at the root, in its user, in a loop of it, or sliding
    decide.py   what values of the choices come to, and which do not go together
    build.py    from decisions to steps of a schedule
    columns.py  the time of many decisions, which nothing is built for
    plan.py     the plan that the rules and the search know
"""

from autotune.rules.nests.plan import NestsPlan, nests_plan

__all__ = ["NestsPlan", "nests_plan"]
