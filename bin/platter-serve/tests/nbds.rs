//! The NBD client over TLS: data, lost connections and what is wrong with certificates, at our server and at nbdkit.
#![cfg(feature = "tls")]

use platter::registry::{self, Access};
use platter_block::bio::Bio;
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_remote::nbd::client::{NbdDisk, NbdOptions, list};
use platter_remote::nbd::uri::Uri;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use platter_serve::tls::{Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(30);

/// Folders of certificates as clients and servers of NBD expect them.
struct Certificates(TempDir);

impl Certificates {
    /// `known`: an authority, a server of it called `disk.example`, and a client. `alone`: only the authority. `other`:
    /// another authority and a client of it. `old`: a server whose certificate has expired.
    fn new() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["known", "alone", "other", "old"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["known", "other"] {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let sign = |name: &str, ends: Option<i32>, place: PathBuf, file: &str| {
                let key = KeyPair::generate().unwrap();
                let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
                if let Some(year) = ends {
                    (params.not_before, params.not_after) =
                        (date_time_ymd(year - 1, 1, 1), date_time_ymd(year, 1, 1));
                }
                fs::write(place.join(format!("{file}-key.pem")), key.serialize_pem()).unwrap();
                let certificate = params.signed_by(&key, &authority).unwrap();
                fs::write(place.join(format!("{file}-cert.pem")), certificate.pem()).unwrap();
            };
            fs::write(path(name).join("ca-cert.pem"), authority.pem()).unwrap();
            sign("disk.example", None, path(name), "server");
            sign("client", None, path(name), "client");
            if name == "known" {
                fs::write(path("alone").join("ca-cert.pem"), authority.pem()).unwrap();
                sign("disk.example", Some(2001), path("old"), "server");
            }
        }
        Certificates(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A server with the certificate of a folder.
    fn serve(&self, name: &str, asks_clients: bool, device: Device) -> Serving {
        let path = |file: &str| self.path(name).join(file);
        let client_authorities = asks_clients.then(|| self.path("known").join("ca-cert.pem"));
        let files = TlsFiles {
            certificate: path("server-cert.pem"),
            key: path("server-key.pem"),
            client_authorities,
        };
        let mut options = Options::default();
        options.tls = Some(Tls::load(files, true).unwrap());
        Serving::new(device, &options)
    }

    /// A server with a certificate of its own, as `openssl req -x509` makes it: without a name, or an authority's.
    fn alone(&self, name: &str, is_authority: bool) -> Serving {
        fs::create_dir(self.path(name)).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = if is_authority { vec!["disk.example".to_owned()] } else { Vec::new() };
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "disk.example");
        params.is_ca =
            if is_authority { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
        let certificate = params.self_signed(&key).unwrap().pem();
        for file in ["server-cert.pem", "ca-cert.pem"] {
            fs::write(self.path(name).join(file), &certificate).unwrap();
        }
        fs::write(self.path(name).join("server-key.pem"), key.serialize_pem()).unwrap();
        self.serve(name, false, open("ram(1M)"))
    }

    /// A URI with the certificates of a folder and more arguments.
    fn uri(&self, socket: &Path, name: &str, more: &str) -> Uri {
        let (socket, folder) = (socket.display(), self.path(name));
        let text = format!("nbds+unix:///disk?socket={socket}&tls-certificates={}{more}", folder.display());
        Uri::parse(&text).unwrap()
    }
}

struct Serving {
    server: Option<Server>,
    folder: TempDir,
    device: Device,
    options: Options,
    tcp: String,
}

impl Serving {
    fn new(device: Device, options: &Options) -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let mut serving =
            Serving { server: None, folder, device, options: options.clone(), tcp: String::new() };
        serving.start();
        serving
    }

    fn start(&mut self) {
        let mut server = Server::new(100);
        server.devices().add(Served::new("disk", self.device.clone()).unwrap()).unwrap();
        server.start("nbd", &format!("unix:{}", self.socket().display()), &self.options).unwrap();
        self.tcp = server.start("nbd", "127.0.0.1:0", &self.options).unwrap();
        self.server = Some(server);
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(LONG).unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

const NAMED: &str = "&tls-hostname=disk.example";

fn open(spec: &str) -> Device {
    registry::open(spec, Access::read_write()).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at + seed) * 31 / 7) as u8).collect()
}

/// Requests of all sizes, many at once, and the allocation status.
fn works(device: &Device) {
    for (seed, size) in [512usize, 4096, 100 << 10, 1 << 20, 32 << 20].into_iter().enumerate() {
        let data = pattern(seed, size);
        device.write_at(&data, 4096).unwrap();
        let mut read = vec![0; size];
        device.read_at(&mut read, 4096).unwrap();
        assert!(read == data, "{size}");
    }
    device.flush().unwrap();
    let mut channel = device.channel(64).unwrap();
    let mut done = Vec::new();
    for at in 0..64u64 {
        let data = pattern(at as usize, 256 << 10);
        let mut bio = Bio::write(at * (256 << 10), data).unwrap();
        bio.set_token(at);
        channel.submit(bio).unwrap();
    }
    while done.len() < 64 {
        channel.wait(&mut done, None);
    }
    assert!(done.iter().all(|bio: &Bio| bio.status().is_ok()));
    done.clear();
    for at in 0..64u64 {
        let mut bio = Bio::read(at * (256 << 10), vec![0u8; 256 << 10]).unwrap();
        bio.set_token(at);
        channel.submit(bio).unwrap();
    }
    while done.len() < 64 {
        channel.wait(&mut done, None);
    }
    for mut bio in done {
        bio.status().unwrap();
        let at = bio.token() as usize;
        assert!(bio.take_buffer::<Vec<u8>>().unwrap() == pattern(at, 256 << 10), "{at}");
    }
}

#[test]
fn data_passes_over_one_connection_and_over_several() {
    let certificates = Certificates::new();
    let serving = certificates.serve("known", true, open("ram(64M)"));
    let (dir, socket) = (certificates.path("known"), serving.socket());
    let (dir, socket, tcp) = (dir.display(), socket.display(), &serving.tcp);
    for spec in [
        format!("nbds://{tcp}/disk?tls-certificates={dir}{NAMED}"),
        format!("nbd(nbds+unix:///disk?socket={socket}&tls-certificates={dir}{NAMED}, replay=64M)"),
        format!("nbd(nbds+unix:///disk?socket={socket}&tls-certificates={dir}{NAMED}, connections=8)"),
    ] {
        let device = open(&spec);
        works(&device);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..20 {
                        let data = pattern(round, 64 << 10);
                        device.write_at(&data, thread << 20).unwrap();
                        let mut read = vec![0; 64 << 10];
                        device.read_at(&mut read, thread << 20).unwrap();
                        assert!(read == data);
                    }
                });
            }
        });
        let facts = device.facts();
        assert!(facts.iter().any(|(name, value)| *name == "encryption" && value == "TLS"), "{facts:?}");
    }
    // The extent of data, over a connection of its own.
    let device = open(&format!("nbd(nbds://{tcp}/disk?tls-certificates={dir}{NAMED}, connections=2)"));
    assert!(!device.allocation(0, 4096).unwrap().is_hole());
    let names = list(&certificates.uri(&serving.socket(), "known", NAMED), NbdOptions::default()).unwrap();
    assert_eq!(names, ["disk"]);
    // The URI is shown with what is needed to use it again.
    let uri = certificates.uri(&serving.socket(), "known", NAMED);
    assert_eq!(Uri::parse(&uri.to_string()), Ok(uri));
}

#[test]
fn lost_connections_come_back_encrypted() {
    let certificates = Certificates::new();
    let mut serving = certificates.serve("known", false, open("ram(16M)"));
    let (dir, socket) = (certificates.path("alone"), serving.socket());
    let uri =
        format!("nbds+unix:///disk?socket={}&tls-certificates={}{NAMED}", socket.display(), dir.display());
    for arguments in ["replay=16M", "connections=3"] {
        let device = open(&format!("nbd({uri}, {arguments})"));
        for round in 0..6usize {
            let data = pattern(round, 300 << 10);
            device.write_at(&data, 8192).unwrap();
            match round % 3 {
                0 => serving.server().clients().list().iter().for_each(|client| client.disconnect()),
                1 => {
                    serving.stop();
                    serving.start();
                }
                _ => {}
            }
            let mut read = vec![0; 300 << 10];
            device.read_at(&mut read, 8192).unwrap();
            assert!(read == data, "{arguments}, round {round}");
            // Without `replay` the first flush after a loss fails, once.
            if device.flush().is_err() {
                device.acknowledge_flush_failure();
                device.flush().unwrap();
            }
        }
        let facts = device.facts();
        let (_, count) = facts.iter().find(|(name, _)| *name == "reconnects").unwrap();
        assert!(count.parse::<u32>().unwrap() >= 4, "{facts:?}");
    }
    // A server that comes back without encryption is not used.
    let device = open(&format!("nbd({uri}, reconnect=50ms)"));
    serving.stop();
    serving.options.tls = None;
    serving.start();
    let error = device.read_at(&mut [0; 512], 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Gone);
    assert!(error.to_string().contains("does not encrypt"), "{error}");
}

#[test]
fn a_request_that_is_not_answered_times_out() {
    let certificates = Certificates::new();
    let serving = certificates.serve("known", false, open("ram(16M)"));
    let (dir, socket) = (certificates.path("alone"), serving.socket());
    let (dir, socket) = (dir.display(), socket.display());
    let uri = format!("nbds+unix:///disk?socket={socket}&tls-certificates={dir}{NAMED}");
    let device = open(&format!("nbd({uri}, timeout=100ms)"));
    device.read_at(&mut [0; 4096], 0).unwrap();
    let disk = serving.server().devices().find("disk").unwrap();
    disk.qos().hold();
    let error = device.read_at(&mut [0; 4096], 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut, "{error}");
    disk.qos().release();
    let patient = open(&format!("nbd({uri}, connections=2)"));
    patient.read_at(&mut [0; 4096], 0).unwrap();
}

#[test]
fn what_is_wrong_with_certificates_is_named() {
    let certificates = Certificates::new();
    let serving = certificates.serve("known", false, open("ram(1M)"));
    let strict = certificates.serve("known", true, open("ram(1M)"));
    let old = certificates.serve("old", false, open("ram(1M)"));
    let plain = Serving::new(open("ram(1M)"), &Options::default());
    let partial = certificates.path("partial");
    fs::create_dir(&partial).unwrap();
    fs::copy(certificates.path("known").join("client-key.pem"), partial.join("client-key.pem")).unwrap();
    fs::copy(certificates.path("known").join("ca-cert.pem"), partial.join("ca-cert.pem")).unwrap();
    fs::create_dir(certificates.path("empty")).unwrap();
    fs::write(certificates.path("empty").join("ca-cert.pem"), "text").unwrap();
    for (server, folder, more, expected) in [
        (&serving, "other", NAMED, &["not from an authority in", "ca-cert.pem"][..]),
        (&serving, "alone", "", &["is not for `localhost`", "tls-hostname=NAME"]),
        (&serving, "alone", "&tls-hostname=disk.other", &["is not for `disk.other`"]),
        (&serving, "alone", "&tls-hostname=a%20b", &["`a b` is no name"]),
        (&serving, "partial", NAMED, &["no client-cert.pem beside it"]),
        (&serving, "empty", NAMED, &["the file holds none", "ca-cert.pem"]),
        (&serving, "missing", NAMED, &["missing is no folder"]),
        (&old, "alone", NAMED, &["has expired"]),
        (&strict, "alone", NAMED, &["asks for a client certificate", "client-key.pem"]),
        (
            &strict,
            "other",
            "&tls-verify-peer=false",
            &["refuses the client certificate", "other/client-cert.pem"],
        ),
        (&plain, "alone", NAMED, &["does not encrypt"]),
    ] {
        let uri = certificates.uri(&server.socket(), folder, more);
        let error = NbdDisk::open(uri, NbdOptions::default()).map(drop).unwrap_err().to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{folder}{more}: {error}");
    }
    let unnamed = certificates.alone("unnamed", false);
    let authority = certificates.alone("authority", true);
    for (server, folder, expected) in [
        (&unnamed, "unnamed", &["common name", "subjectAltName=DNS:disk.example"][..]),
        (&authority, "authority", &["that of an authority", "CA:FALSE"]),
    ] {
        let uri = certificates.uri(&server.socket(), folder, NAMED);
        let error = NbdDisk::open(uri, NbdOptions::default()).map(drop).unwrap_err().to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{folder}: {error}");
    }
    // Encryption without a check of whose it is.
    for server in [&serving, &old] {
        let uri = certificates.uri(&server.socket(), "other", "&tls-verify-peer=false");
        NbdDisk::open(uri, NbdOptions::default()).unwrap();
    }
    let uri = Uri::unix(serving.socket(), "disk");
    let error = NbdDisk::open(uri, NbdOptions::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("demands TLS; use nbds://"), "{error}");
    let none = registry::open(
        &format!(
            "nbds+unix:///none?socket={}&tls-certificates={}{NAMED}",
            serving.socket().display(),
            certificates.path("alone").display()
        ),
        Access::read(),
    );
    assert!(none.unwrap_err().to_string().contains("it has `disk`"));
}

/// A process that ends with the test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nbdkit_is_a_server_too() {
    let certificates = Certificates::new();
    let dir = certificates.path("known");
    let socket = certificates.path("nbdkit");
    let mut command = Command::new("nbdkit");
    command.args(["-f", "--tls=require", "--tls-verify-peer", "-U"]).arg(&socket);
    command.arg(format!("--tls-certificates={}", dir.display())).args(["memory", "64M"]);
    let Ok(child) = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn() else {
        eprintln!("skipped: nbdkit is not installed");
        return;
    };
    let mut child = Child(child);
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        if child.0.try_wait().unwrap().is_some() {
            eprintln!("skipped: this nbdkit has no TLS");
            return;
        }
        std::thread::yield_now();
    }
    let uri = format!("nbds+unix:///?socket={}&tls-certificates={}{NAMED}", socket.display(), dir.display());
    works(&open(&uri));
    works(&open(&format!("nbd({uri}, connections=4)")));
    let alone = certificates.path("alone");
    let uri =
        format!("nbds+unix:///?socket={}&tls-certificates={}{NAMED}", socket.display(), alone.display());
    let error = registry::open(&uri, Access::read()).map(drop).unwrap_err().to_string();
    assert!(error.contains("client certificate") || error.contains("connection"), "{error}");
}

#[test]
fn a_server_without_encryption_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap()).unwrap();
    server.start("nbd", &format!("unix:{}", socket.display()), &Options::default()).unwrap();
    let text = format!("nbds+unix:///disk?socket={}&tls-verify-peer=false", socket.display());
    let opened = NbdDisk::open(Uri::parse(&text).unwrap(), NbdOptions::default()).map(drop);
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("does not encrypt"), "{error}");
}
