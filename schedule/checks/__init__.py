"""What primitives require, and what is asked of every program that one makes."""
