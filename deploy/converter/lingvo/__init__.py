"""The part of Lingvo's API that Sax's quantization tool uses."""
