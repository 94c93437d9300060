"""Boxes of results with what lies around them: stencils, pooling, depthwise convolutions."""
