//! The CustomResourceDefinition: schema from the Rust types, CEL rules, columns. Pure.
