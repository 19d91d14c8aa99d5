"""HorizontalPodAutoscalers: how many replicas something that scales should have."""
