"""A model server that answers with what it was asked, as fast or as slowly as it is told: for rehearsals and load tests."""
