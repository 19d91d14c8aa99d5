"""Who asks, and whether they may: certificates, tokens, RBAC and the reviews that answer questions about both."""
