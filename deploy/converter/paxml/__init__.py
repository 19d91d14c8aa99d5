"""The part of Paxml's API that Sax's converters use: they write one checkpoint.

Paxml itself needs Python 3.10 and TensorFlow 2.9. Neither has security updates.
"""
