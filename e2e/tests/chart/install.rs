//! A release on a real node.
