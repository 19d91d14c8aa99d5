"""What changes or refuses a write on its way in: the plugins that kube-apiserver runs by default."""
