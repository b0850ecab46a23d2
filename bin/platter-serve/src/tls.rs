//! Certificates and keys of servers that encrypt.

mod validity;

use crate::error::ServeError;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

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

/// How a server encrypts. Clones share the certificates, also those that [`take_over`](Tls::take_over) brings.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    required: bool,
    loaded: Arc<Mutex<Loaded>>,
}

/// What the files have held.
#[derive(Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// The certificates of the server, and of authorities.
    certificates: [Vec<CertificateDer<'static>>; 2],
    expires_at: Option<SystemTime>,
}

impl Tls {
    /// Reads the files. `required`: connections without encryption are refused.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be; the key does not belong to the certificate.
    pub fn load(files: TlsFiles, required: bool) -> Result<Tls, ServeError> {
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| not_pem("private key", &files.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ServeError::system(format!("TLS cannot be set up: {error}")))?;
        let mut authorities = Vec::new();
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                authorities = certificates(path)?;
                let mut roots = RootCertStore::empty();
                for certificate in &authorities {
                    roots
                        .add(certificate.clone())
                        .map_err(|error| unreadable("certificate", path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|error| unreadable("certificate", path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(chain.clone(), key).map_err(|error| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            ServeError::usage(format!(
                "the certificate {certificate} and the key {key} cannot be used: {error}"
            ))
        })?;
        let expires_at = chain.first().and_then(|certificate| validity::not_after(certificate));
        let loaded = Loaded { config: Arc::new(config), certificates: [chain, authorities], expires_at };
        Ok(Tls { files, required, loaded: Arc::new(Mutex::new(loaded)) })
    }

    /// When the certificate of the server ends to be valid; `None`: it does not say so in a form that is known.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.loaded().expires_at
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// As for [`load`](Tls::load); nothing has changed.
    pub fn read_again(&self) -> Result<Tls, ServeError> {
        Tls::load(self.files.clone(), self.required)
    }

    /// Uses what another one has loaded for connections that begin from now on. Returns whether its certificates differ.
    pub fn take_over(&self, newer: &Tls) -> bool {
        if Arc::ptr_eq(&self.loaded, &newer.loaded) {
            return false;
        }
        let newer = newer.loaded();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = loaded.certificates != newer.certificates;
        *loaded = newer;
        differs
    }

    /// What is to be said of the time for which the certificate is valid: it has ended, or ends within two weeks.
    pub fn expiry_warning(&self) -> Option<String> {
        const SOON: u64 = 14;
        const DAY: u64 = 86_400;
        let (at, shown) = (self.expires_at()?, self.files.certificate.display());
        match at.duration_since(SystemTime::now()) {
            Err(ago) => {
                let days = ago.duration().as_secs() / DAY;
                Some(format!(
                    "the certificate {shown} has expired {days} days ago: clients refuse it; renew it"
                ))
            }
            Ok(left) if left.as_secs() < SOON * DAY => {
                Some(format!("the certificate {shown} expires in {} days; renew it", left.as_secs() / DAY))
            }
            Ok(_) => None,
        }
    }

    fn loaded(&self) -> Loaded {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether connections without encryption are refused.
    pub fn is_required(&self) -> bool {
        self.required
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.loaded().config
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
        Err(error) => Err(not_pem("certificate", path, &error)),
    }
}

fn not_pem(what: &str, path: &Path, error: &pem::Error) -> ServeError {
    match error {
        pem::Error::Io(error) => {
            ServeError::usage(format!("cannot read the {what} in {}: {error}", path.display()))
        }
        pem::Error::NoItemsFound => unreadable(what, path, &"the file holds none"),
        other => unreadable(what, path, other),
    }
}

/// Why a handshake failed, in words.
pub(crate) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            "the certificate of the client is that of an authority (basicConstraints CA:TRUE); it needs one of its own".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the certificate of the client is not from an authority that is accepted here".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the certificate of the client has expired".to_owned()
        }
        Error::NoCertificatesPresented => "the client has no certificate, which is required".to_owned(),
        other => other.to_string(),
    }
}

fn unreadable(what: &str, path: &Path, error: &dyn fmt::Display) -> ServeError {
    ServeError::usage(format!("cannot use the {what} in {}: {error}; it must be PEM", path.display()))
}
