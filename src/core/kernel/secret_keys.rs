//! The keys of the Secrets that a resource names. Pure data; read by what judges a Secret, and by what mounts it.

/// The key of a credentials Secret, and the name of the file it is mounted as.
pub const PASSWORD_FILE: &str = "password-file";
/// The key of a certificate Secret that holds the certificate and its chain.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of a certificate Secret that holds the private key.
pub const PRIVATE_KEY: &str = "tls.key";
/// The key of a certificate Secret that holds the CA of the clients' certificates.
pub const CA: &str = "ca.crt";
