//! Encrypted connections.

use crate::client::{Client, Stream, attach, connect, over};
use crate::{Fixture, open, serve_with};
use platter_remote::nbd::wire::{Request, command, option, option_reply};
use platter_serve::export::Options;
use platter_serve::tls::{Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn half_close(&self) {
        self.sock.shutdown(Shutdown::Write).unwrap();
    }
}

/// An authority, and certificates of it for the server and for a client.
struct Certificates {
    folder: TempDir,
    authority: CertificateDer<'static>,
    client: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl Certificates {
    fn new() -> Certificates {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &authority).unwrap(), key)
        };
        let (server, server_key) = signed("localhost");
        let (client, client_key) = signed("client");
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
        put("server.pem", server.pem());
        put("server.key", server_key.serialize_pem());
        put("other.key", client_key.serialize_pem());
        put("authority.pem", authority.pem());
        put("empty.pem", String::new());
        let client_key = PrivateKeyDer::try_from(client_key.serialize_der()).unwrap();
        let client = (client.der().clone(), client_key);
        Certificates { authority: authority.der().clone(), client, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn files(&self, asks_clients: bool) -> TlsFiles {
        let path = |name| self.path().join(name);
        let client_authorities = asks_clients.then(|| path("authority.pem"));
        TlsFiles { certificate: path("server.pem"), key: path("server.key"), client_authorities }
    }

    fn serve(&self, required: bool, asks_clients: bool) -> Fixture {
        let mut options = Options::default();
        options.tls = Some(Tls::load(self.files(asks_clients), required).unwrap());
        serve_with(vec![("disk", open("ram(64M)"))], 10, &options)
    }

    fn config(&self, with_certificate: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match with_certificate {
            true => {
                builder.with_client_auth_cert(vec![self.client.0.clone()], self.client.1.clone_key()).unwrap()
            }
            false => builder.with_no_client_auth(),
        })
    }
}

/// A connection on which TLS has begun, in the negotiation.
fn encrypted(fixture: &Fixture, config: Arc<ClientConfig>) -> Client {
    let socket = TcpStream::connect(&fixture.tcp).unwrap();
    let mut plain = over(Box::new(socket.try_clone().unwrap()));
    plain.greet();
    assert_eq!(plain.option(option::STARTTLS, b"")[0].0, option_reply::ACK);
    let name = ServerName::try_from("localhost").unwrap();
    over(Box::new(StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket)))
}

#[test]
fn requests_of_all_sizes_pass_through_encryption() {
    let certificates = Certificates::new();
    let fixture = certificates.serve(true, false);
    let mut client = encrypted(&fixture, certificates.config(false));
    client.option(option::STRUCTURED_REPLY, b"");
    client.structured = true;
    client.go("disk");
    for size in [512usize, 4096, 100 << 10, 1 << 20, 32 << 20] {
        let data: Vec<u8> = (0..size).map(|at| (at * 31 / 7) as u8).collect();
        client.write(4096, &data);
        assert!(client.read(4096, size as u32) == data, "{size}");
    }
    client.flush();
    // Many requests at once, and replies that do not fit into the socket.
    let read = |cookie| Request { cookie, length: 1 << 20, ..Request::default() }.to_bytes();
    client.send(&(0..200).flat_map(read).collect::<Vec<u8>>());
    let mut cookies: Vec<u64> = (0..200).map(|_| client.answer(1 << 20).cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..200).collect::<Vec<u64>>());
    client.request(command::DISC, 0, 0, 0);
    assert!(client.is_closed());
    fixture.events.await_text("the client disconnected");
}

#[test]
fn required_encryption_cannot_be_left_out() {
    let certificates = Certificates::new();
    let fixture = certificates.serve(true, false);
    let mut plain = connect(&fixture.tcp);
    plain.greet();
    assert_eq!(plain.option(option::LIST, b"")[0].0, option_reply::ERR_TLS_REQD);
    plain.send(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
    assert!(plain.is_closed());
    let allowed = certificates.serve(false, false);
    attach(&allowed.tcp, "disk", true).flush();
    encrypted(&allowed, certificates.config(false)).go("disk");
}

#[test]
fn only_clients_with_a_certificate_are_served_if_one_is_asked_for() {
    let certificates = Certificates::new();
    let fixture = certificates.serve(true, true);
    let mut known = encrypted(&fixture, certificates.config(true));
    known.go("disk");
    known.write(0, &[1; 512]);
    let mut stranger = encrypted(&fixture, certificates.config(false));
    let header = b"IHAVEOPT\0\0\0\x03\0\0\0\0";
    let refused =
        stranger.stream.write_all(header).is_err() || stranger.stream.read_exact(&mut [0; 20]).is_err();
    assert!(refused);
    fixture.events.await_text("TLS handshake failed");
    assert_eq!(known.read(0, 512), [1; 512]);
}

#[test]
fn data_that_was_sent_before_the_encryption_is_not_taken_for_encrypted() {
    let certificates = Certificates::new();
    let fixture = certificates.serve(true, false);
    let mut client = connect(&fixture.tcp);
    client.greet();
    let starttls = b"IHAVEOPT\0\0\0\x05\0\0\0\0";
    client.send(&[&starttls[..], b"IHAVEOPT\0\0\0\x03\0\0\0\0"].concat());
    client.receive(20);
    assert!(client.is_closed());
    // Nonsense instead of a handshake.
    let mut client = connect(&fixture.tcp);
    client.greet();
    client.option(option::STARTTLS, b"");
    client.send(&[0x55; 100]);
    fixture.events.await_text("TLS handshake failed");
    fixture.events.await_text("between STARTTLS");
}

#[test]
fn files_that_do_not_fit_are_refused_with_their_names() {
    let certificates = Certificates::new();
    let path = |name| certificates.path().join(name);
    for (change, says) in [
        (TlsFiles { certificate: path("none.pem"), ..certificates.files(false) }, "none.pem: No such file"),
        (TlsFiles { key: path("none.key"), ..certificates.files(false) }, "none.key: No such file"),
        (
            TlsFiles { client_authorities: Some(path("none.pem")), ..certificates.files(false) },
            "No such file",
        ),
        (TlsFiles { certificate: path("empty.pem"), ..certificates.files(false) }, "holds none"),
        (TlsFiles { key: path("server.pem"), ..certificates.files(false) }, "private key"),
        (TlsFiles { key: path("other.key"), ..certificates.files(false) }, "other.key"),
        (
            TlsFiles { client_authorities: Some(path("server.key")), ..certificates.files(false) },
            "server.key",
        ),
    ] {
        let error = Tls::load(change, true).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn new_certificates_are_used_by_new_connections() {
    let (old, new) = (Certificates::new(), Certificates::new());
    let tls = Tls::load(old.files(false), true).unwrap();
    let mut options = Options::default();
    options.tls = Some(tls.clone());
    let fixture = serve_with(vec![("disk", open("ram(1M)"))], 10, &options);
    let mut before = encrypted(&fixture, old.config(false));
    before.go("disk");
    assert!(!tls.take_over(&tls.read_again().unwrap()), "they are the same");
    for name in ["server.pem", "server.key"] {
        fs::copy(new.path().join(name), old.path().join(name)).unwrap();
    }
    assert!(tls.take_over(&tls.read_again().unwrap()));
    encrypted(&fixture, new.config(false)).go("disk");
    before.write(0, &[1; 512]);
    assert_eq!(before.read(0, 512), [1; 512], "an old connection stays");
    fs::write(old.path().join("server.key"), "").unwrap();
    assert!(tls.read_again().unwrap_err().to_string().contains("holds none"));
    encrypted(&fixture, new.config(false)).go("disk");
}

#[test]
fn a_certificate_that_ends_soon_is_warned_about() {
    let certificates = Certificates::new();
    let load = |days: i64| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let now = std::time::SystemTime::now();
        let day = std::time::Duration::from_secs(86_400 * days.unsigned_abs());
        params.not_after = if days < 0 { now - day } else { now + day }.into();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        let files = certificates.files(false);
        fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        Tls::load(files, true).unwrap().expiry_warning().unwrap_or_default()
    };
    assert!(load(-3).contains("server.pem has expired 3 days ago"), "{}", load(-3));
    assert!(load(10).contains("server.pem expires in 9 days"), "{}", load(10));
    assert_eq!(load(100), "");
}
