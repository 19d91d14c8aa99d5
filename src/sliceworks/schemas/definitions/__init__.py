"""What must hold for a CustomResourceDefinition. `sliceworks.schemas.crds` is the way in."""
