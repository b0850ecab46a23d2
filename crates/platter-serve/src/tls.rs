//! Certificates and keys of servers that encrypt.

use crate::error::ServeError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files that encryption needs, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Certificates of authorities: a client must have a certificate of one of them. `None`: clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// How a server encrypts. Clones share the certificates.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    required: bool,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files. `required`: connections without encryption are refused.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be; the key does not belong to the certificate.
    pub fn load(files: TlsFiles, required: bool) -> Result<Tls, ServeError> {
        let certificates = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unreadable("private key", &files.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ServeError::system(format!("TLS cannot be set up: {error}")))?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in self::certificates(path)? {
                    roots.add(certificate).map_err(|error| unreadable("certificate", path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|error| unreadable("certificate", path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(certificates, key).map_err(|error| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            ServeError::usage(format!(
                "the certificate {certificate} and the key {key} cannot be used: {error}"
            ))
        })?;
        Ok(Tls { files, required, config: Arc::new(config) })
    }

    /// Whether connections without encryption are refused.
    pub fn is_required(&self) -> bool {
        self.required
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        (&self.files, self.required) == (&other.files, other.required)
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(list) if list.is_empty() => Err(unreadable("certificate", path, &"the file holds none")),
        Ok(list) => Ok(list),
        Err(error) => Err(unreadable("certificate", path, &error)),
    }
}

fn unreadable(what: &str, path: &Path, error: &dyn fmt::Display) -> ServeError {
    ServeError::usage(format!("cannot use the {what} in {}: {error}; it must be PEM", path.display()))
}
