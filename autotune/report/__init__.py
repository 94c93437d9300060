"""What the trials of one workload tell: as data, as figures, and as a page."""

from autotune.report.summary import Report as Report
from autotune.report.summary import default_time as default_time
from autotune.report.summary import hints_text as hints_text
from autotune.report.summary import places as places
from autotune.report.summary import spent_text as spent_text
from autotune.report.summary import status_text as status_text
from autotune.report.summary import summarize as summarize
from autotune.tuning.failures import headline as headline
