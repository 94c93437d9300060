"""The tuning database: records, the file that keeps them, and what a query finds."""
