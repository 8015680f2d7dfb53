"""Operations on registries and data directories whose broker does not run."""
