"""Joins the product and the twin: scenarios, rehearsals and the report of a day."""
