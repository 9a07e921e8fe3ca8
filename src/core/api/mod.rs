//! What users write and read: the `Memcached` resource. Pure; uses nothing else of this package.
//!
//! [`spec`] and [`status`] are the two halves of the resource: [`spec::validate`] turns a spec as it was written into a
//! [`Validated`] one, which the kernel builds from. [`crd`] is the schema that the API server enforces, `schema` what
//! derived schemas lack. [`quantity`] says what `128Mi` means, [`headroom`] how much of it memcached takes beside its items,
//! [`warnings`] what a valid spec may cost one day.
