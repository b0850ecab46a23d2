//! TLS: certificates, and a connection through it. Data passes through buffers of the TLS library, so each byte is copied
//! once in each direction beside being encrypted.

use super::error::NbdError;
use super::memory::Batch;
use crate::nbd::uri::{Address, Uri};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes that wait in the TLS library to be sent.
const BUFFER_BYTES: usize = 256 << 10;

/// Most reads of the socket until something is decrypted; beyond that others come first. The rest keeps the socket readable.
const MOST_READS: u32 = 256;

/// The files of a folder of certificates, by the names that other NBD clients use.
const AUTHORITIES: &str = "ca-cert.pem";
const CERTIFICATE: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";

/// Where systems keep the authorities that they trust.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How the connections of a disk are encrypted.
pub(super) struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The same as text.
    shown: String,
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.shown).finish_non_exhaustive()
    }
}

fn unfit(why: String) -> NbdError {
    NbdError::Unfit(why)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NbdError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let wrong = |why: String| {
        unfit(format!("cannot use the certificate in {}: {why}; it must be PEM", path.display()))
    };
    match read {
        Ok(list) if list.is_empty() => Err(wrong("the file holds none".to_owned())),
        Ok(list) => Ok(list),
        Err(pem::Error::Io(error)) => {
            Err(unfit(format!("cannot read the certificate in {}: {error}", path.display())))
        }
        Err(pem::Error::NoItemsFound) => Err(wrong("the file holds none".to_owned())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

impl ClientTls {
    /// Reads the certificates that `uri` names.
    pub(super) fn load(uri: &Uri) -> Result<ClientTls, NbdError> {
        let security = &uri.security;
        let shown = match (&security.hostname, &uri.address) {
            (Some(name), _) => name.clone(),
            (None, Address::Tcp(host, _)) => host.clone(),
            (None, Address::Unix(_)) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(shown.clone()).map_err(|_| {
            unfit(format!("`{shown}` is no name that a certificate can have; give one as tls-hostname=NAME"))
        })?;
        let folder = security.certificates.as_deref();
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(unfit(format!("tls-certificates={} is no folder", folder.display())));
        }
        let file = |name: &str| folder.map(|folder| folder.join(name)).filter(|path| path.exists());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(format!("TLS cannot be set up: {error}")))?;
        let authorities = file(AUTHORITIES);
        let builder = match security.verify_peer {
            true => {
                let path = authorities.clone().or_else(system_authorities).ok_or_else(no_authorities)?;
                let roots = roots(&path, authorities.is_some())?;
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|error| unfit(format!("{}: {error}", path.display())))?;
                builder.with_webpki_verifier(verifier)
            }
            false => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        };
        let certificate = file(CERTIFICATE);
        let config = match (&certificate, file(KEY)) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let list = certificates(certificate)?;
                let wrong = |error: &dyn fmt::Display| {
                    let (certificate, key) = (certificate.display(), key.display());
                    unfit(format!("the certificate {certificate} and the key {key} cannot be used: {error}"))
                };
                let read = PrivateKeyDer::from_pem_file(&key).map_err(|error| wrong(&error))?;
                builder.with_client_auth_cert(list, read).map_err(|error| wrong(&error))?
            }
            (Some(found), None) => {
                return Err(unfit(format!("{} is there, but no {KEY} beside it", found.display())));
            }
            (None, Some(found)) => {
                return Err(unfit(format!("{} is there, but no {CERTIFICATE} beside it", found.display())));
            }
        };
        Ok(ClientTls { config: Arc::new(config), name, shown, authorities, certificate })
    }

    /// What is wrong, and what to do.
    fn explain(&self, error: &Error) -> String {
        let shown = &self.shown;
        match error {
            Error::InvalidCertificate(problem) => match problem {
                CertificateError::UnknownIssuer => {
                    let trusted = match &self.authorities {
                        Some(path) => format!("an authority in {}", path.display()),
                        None => "an authority that this system trusts".to_owned(),
                    };
                    format!(
                        "the certificate of the server is not from {trusted}; put its authority into {AUTHORITIES} of the \
                         folder that tls-certificates names"
                    )
                }
                CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => format!(
                    "the certificate of the server names no host in subjectAltName, and a common name (CN) does not count; make \
                     one with subjectAltName=DNS:{shown} (or IP:ADDRESS)"
                ),
                // The library has no error of its own for it.
                CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
                    "the certificate of the server is that of an authority (basicConstraints CA:TRUE, which `openssl req \
                     -x509` sets), and cannot be a server's as well; make one with -addext basicConstraints=critical,CA:FALSE"
                        .to_owned()
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    format!(
                        "the certificate of the server is not for `{shown}`; give the name that it has as tls-hostname=NAME"
                    )
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the certificate of the server has expired; renew it, or set the clock of this machine"
                        .to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "the certificate of the server is not valid yet; set the clock of this machine".to_owned()
                }
                other => format!("the certificate of the server is not accepted: {other}"),
            },
            Error::AlertReceived(
                alert @ (AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::UnknownCA
                | AlertDescription::DecryptError
                | AlertDescription::AccessDenied
                | AlertDescription::HandshakeFailure),
            ) => match &self.certificate {
                Some(path) => {
                    format!("the server refuses the client certificate {}: {alert:?}", path.display())
                }
                None => format!(
                    "the server asks for a client certificate ({alert:?}); put {CERTIFICATE} and {KEY} into the folder \
                     that tls-certificates names"
                ),
            },
            other => format!("TLS failed: {other}"),
        }
    }
}

fn no_authorities() -> NbdError {
    unfit(format!(
        "no authorities are known here whose certificates are trusted; give {AUTHORITIES} in a folder as tls-certificates=DIR"
    ))
}

fn system_authorities() -> Option<PathBuf> {
    SYSTEM.iter().map(PathBuf::from).find(|path| path.exists())
}

/// The authorities in a file. Systems have some that the library does not take; those of the user must be good.
fn roots(path: &Path, must_all_fit: bool) -> Result<RootCertStore, NbdError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        if let Err(error) = roots.add(certificate)
            && must_all_fit
        {
            return Err(unfit(format!("cannot use the certificate in {}: {error}", path.display())));
        }
    }
    Ok(roots)
}

/// Accepts every server that has the key of its certificate: for `tls-verify-peer=false`.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The socket as the TLS library calls it. It never blocks.
struct Raw<'a>(BorrowedFd<'a>);

impl Read for Raw<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (_, count) = recv(self.0, bytes, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection through TLS.
pub(super) struct Encrypted {
    connection: Box<ClientConnection>,
    tls: Arc<ClientTls>,
    /// The number of the error with which the socket took nothing any more. The socket reports it once.
    broken: Option<i32>,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").finish_non_exhaustive()
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether sending may succeed later.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM))
}

impl Encrypted {
    /// Begins the handshake, which sending and receiving carry out.
    pub(super) fn begin(tls: &Arc<ClientTls>) -> Result<Encrypted, NbdError> {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut connection = connection.map_err(|error| NbdError::Tls(tls.explain(&error)))?;
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(Encrypted { connection: Box::new(connection), tls: Arc::clone(tls), broken: None })
    }

    /// Whether something that was taken is not on its way yet.
    pub(super) fn is_behind(&self) -> bool {
        self.connection.wants_write()
    }

    /// The error with which the socket takes nothing any more, also if no caller has been told.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.broken.map(io::Error::from_raw_os_error)
    }

    /// Sends what is behind. An error that lasts is returned each time.
    pub(super) fn push(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        while self.connection.wants_write() {
            if let Err(error) = self.connection.write_tls(&mut Raw(socket)) {
                if !may_pass(&error) {
                    self.broken = error.raw_os_error();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes as much as there is room for, and sends what the socket takes.
    fn send_with(
        &mut self,
        socket: BorrowedFd<'_>,
        take: impl FnOnce(&mut dyn Write) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self.push(socket) {
            Err(error) if !would_block(&error) => return Err(error),
            _ => {}
        }
        let taken = take(&mut self.connection.writer())?;
        match self.push(socket) {
            // Of what was taken, the server may have a part. The next call returns the error.
            _ if taken > 0 => Ok(taken),
            Err(error) if !would_block(&error) => Err(error),
            _ => Err(Errno::AGAIN.into()),
        }
    }

    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.send_with(socket, |to| to.write(bytes))
    }

    pub(super) fn send_batch(&mut self, socket: BorrowedFd<'_>, batch: &mut Batch) -> io::Result<usize> {
        self.send_with(socket, |to| batch.copy_to(to))
    }

    /// Receives until something is decrypted, or would block. 0: the server has closed its side.
    fn receive_with(
        &mut self,
        socket: BorrowedFd<'_>,
        mut take: impl FnMut(&mut rustls::Reader<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        for _ in 0..MOST_READS {
            match take(&mut self.connection.reader()) {
                Err(error) if would_block(&error) => {}
                // The end without the farewell of TLS: a server that was killed does not send it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                other => return other,
            }
            if self.connection.read_tls(&mut Raw(socket))? == 0 {
                return Ok(0);
            }
            let processed = self.connection.process_new_packets();
            // Answers of the handshake, or an alert that tells the server why; it may be gone.
            let _ = self.push(socket);
            if let Err(error) = processed {
                return Err(io::Error::new(io::ErrorKind::InvalidData, self.tls.explain(&error)));
            }
        }
        // What the last read brought is taken if it is data.
        take(&mut self.connection.reader())
    }

    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
        self.receive_with(socket, |from| from.read(bytes))
    }

    pub(super) fn receive_batch(&mut self, socket: BorrowedFd<'_>, batch: &Batch) -> io::Result<usize> {
        self.receive_with(socket, |from| batch.fill(from))
    }

    /// Tells the server that nothing follows.
    pub(super) fn close(&mut self, socket: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        // The server may be gone already.
        let _ = self.push(socket);
    }
}
