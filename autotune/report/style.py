"""How the page of a report looks."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.1rem; margin-top: 2.2rem; }}
.cards {{ display: flex; flex-wrap: wrap; gap: .8rem; }}
.cards div {{ border: 1px solid #ddd; border-radius: 6px; padding: .5rem .9rem; max-width: 24rem; }}
.cards b {{ display: block; font-size: 1.15rem; font-weight: 600; }}
.cards span {{ color: #666; font-size: .85rem; }}
.figures {{ display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); }}
figure {{ margin: 0; }} img {{ width: 100%; height: auto; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }}
dt {{ color: #666; }} dd {{ margin: 0; overflow-wrap: anywhere; }}
.wide {{ overflow-x: auto; max-height: 34rem; overflow-y: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .15rem .7rem; text-align: left; border-bottom: 1px solid #eee; }}
th {{ position: sticky; top: 0; background: #fff; }}
td[data-seconds], th.number {{ text-align: right; }} .wide + .wide {{ margin-top: 1rem; }}
pre {{ background: #f6f6f4; padding: .8rem; overflow: auto; max-height: 34rem; font-size: .8rem; }}
summary {{ cursor: pointer; padding: .3rem 0; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{said}</p>
<div class="cards">{cards}</div>
<h2>The search</h2>
<div class="figures">{figures}</div>
<h2>The winner</h2>
{winner}
<h2>Which choices mattered</h2>
<p>Of each choice, how much of the spread of times it explains alone (epsilon squared of the
logarithm of times, among the trials of its sketch). What a search tries is no random sample: a
choice that it settled early explains little.</p>
{choices}
<h2>What sketches and algorithms were worth</h2>
{worth}
<h2>What failed</h2>
{failures}
<h2>All trials</h2>
{trials}
<h2>What was measured</h2>
<dl>{details}</dl>
</body>
</html>
"""
