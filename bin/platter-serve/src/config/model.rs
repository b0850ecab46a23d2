//! A configuration, and how it is read.

use super::error::{ConfigErrors, Found};
use super::keys;
use super::section::{Placed, Section};
#[cfg(feature = "iscsi")]
use crate::chap::Chap;
use crate::export::Options;
use crate::qos::{ClientLimits, DeviceLimits};
use crate::served::MAX_NAME_BYTES;
use crate::table;
#[cfg(feature = "tls")]
use crate::tls::{Tls, TlsFiles};
use platter::registry;
use platter::spec::conceal;
use platter_block::text::excerpt;
use platter_block::time::Span;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;

/// Largest configuration, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Config {
    /// The server as a whole.
    pub server: ServerConfig,
    /// The devices, in the order of the file.
    pub devices: Vec<DeviceConfig>,
    /// The exports, in the order of the file.
    pub exports: Vec<ExportConfig>,
}

/// The server as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The path of the control socket.
    pub control: Option<PathBuf>,
    /// The address of the metrics.
    pub metrics: Option<String>,
    /// The path of the state file.
    pub state: Option<PathBuf>,
    /// Addresses other than loopback may be served without TLS.
    pub insecure_plaintext: bool,
    /// Most clients at a time.
    pub clients_max: usize,
    /// Most bytes of memory for the data of all clients.
    pub memory_max: usize,
    /// How long clients and flushes have at the end.
    pub stop_timeout: Duration,
    /// The age of an I/O at which the server counts as stalled.
    pub stall_after: Duration,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            control: None,
            metrics: None,
            state: None,
            insecure_plaintext: false,
            clients_max: crate::server::MAX_CLIENTS,
            memory_max: crate::clients::MAX_MEMORY,
            stop_timeout: Duration::from_secs(30),
            stall_after: Duration::from_secs(30),
        }
    }
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceConfig {
    /// The name by which clients ask for it.
    pub name: String,
    /// The device, in the language of specs.
    pub spec: String,
    /// Text in lists.
    pub description: Option<String>,
    /// Clients may only read, and it is opened so.
    pub read_only: bool,
    /// It may hold a file system or a part of an array.
    pub force: bool,
    /// It may be mounted or locked by others.
    pub allow_in_use: bool,
    /// Of all clients together.
    pub limits: DeviceLimits,
    /// Of each client.
    pub client_limits: ClientLimits,
}

impl DeviceConfig {
    /// A device without limits that may be written.
    pub fn new(name: &str, spec: &str) -> DeviceConfig {
        DeviceConfig {
            name: name.to_owned(),
            spec: conceal(spec).into_owned(),
            description: None,
            read_only: false,
            force: false,
            allow_in_use: false,
            limits: DeviceLimits::default(),
            client_limits: ClientLimits::default(),
        }
    }
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportConfig {
    /// Its name in the server.
    pub name: String,
    /// The kind of export.
    pub kind: String,
    /// Where clients reach it.
    pub address: String,
    /// How clients are served. Whether other hosts may connect without encryption is for the server to say.
    pub options: Options,
}

impl ExportConfig {
    /// An export of a kind at an address.
    pub fn new(name: &str, kind: &str, address: &str) -> ExportConfig {
        ExportConfig {
            name: name.to_owned(),
            kind: kind.to_owned(),
            address: address.to_owned(),
            options: Options::default(),
        }
    }
}

/// Reads the configuration in a file.
///
/// # Errors
/// The file cannot be read, is too large or not UTF-8; all errors of its contents.
pub fn read_file(path: &Path) -> Result<Config, ConfigErrors> {
    let file = path.display().to_string();
    let wrong = |message: String| ConfigErrors::of_file(&file, message);
    let mut bytes = Vec::new();
    let most = MAX_CONFIG_BYTES as u64 + 1;
    let read = std::fs::File::open(path).and_then(|open| open.take(most).read_to_end(&mut bytes));
    read.map_err(|error| wrong(format!("cannot read the configuration: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        wrong(format!("the configuration is not UTF-8: byte {} is wrong", error.utf8_error().valid_up_to()))
    })?;
    parse(&text).map_err(|errors| ConfigErrors { file, ..errors })
}

/// Reads a configuration.
///
/// # Errors
/// All errors of the text.
pub fn parse(text: &str) -> Result<Config, ConfigErrors> {
    if text.len() > MAX_CONFIG_BYTES {
        let message = format!("the configuration has more than {MAX_CONFIG_BYTES} bytes");
        return Err(ConfigErrors::of_file("", message));
    }
    let mut found = Found::new(text);
    let config = match DeTable::parse(text) {
        Ok(table) => read(table.get_ref(), &mut found),
        Err(error) => {
            let message = excerpt(&error.message().replace('\n', " "), 200);
            found.add(&error.span().unwrap_or(0..0), message);
            Config::default()
        }
    };
    found.done(config)
}

fn read(table: &DeTable<'_>, found: &mut Found<'_>) -> Config {
    let top = Section::new("", keys::TOP, table, 0..0, found);
    let server =
        top.table("server", keys::SERVER, found).map_or_else(ServerConfig::default, |it| server(&it, found));
    let devices = top.tables("devices", keys::DEVICE, found);
    let devices = devices.iter().filter_map(|(name, it)| device(name, it, found)).collect();
    let exports = top.tables("exports", keys::EXPORT, found);
    let exports: Vec<ExportConfig> =
        exports.iter().filter_map(|(name, it)| export(name, it, found)).collect();
    Config { server, devices, exports }
}

fn server(section: &Section<'_, '_>, found: &mut Found<'_>) -> ServerConfig {
    let control = section.text("control", found).map(|path| PathBuf::from(path.value));
    let metrics = section.text("metrics", found).map(|address| address.value);
    let state = section.text("state", found).map(|path| PathBuf::from(path.value));
    ServerConfig {
        control,
        metrics,
        state,
        insecure_plaintext: section.switch("insecure_plaintext", found),
        clients_max: usize::try_from(section.count("clients_max", found)).unwrap_or(usize::MAX),
        memory_max: usize::try_from(section.size("memory_max", found)).unwrap_or(usize::MAX),
        stop_timeout: section.time("stop_timeout", found),
        stall_after: section.time("stall_after", found),
    }
}

/// Checks the name of a device or an export.
fn named(what: &str, name: &Placed<String>, found: &mut Found<'_>) {
    let text = &name.value;
    if text.is_empty() || text.len() > MAX_NAME_BYTES || text.chars().any(char::is_control) {
        let rule = format!("it needs 1 to {MAX_NAME_BYTES} bytes and no control characters");
        found.add(&name.span, format!("\"{}\" cannot be the name of {what}: {rule}", excerpt(text, 60)));
    }
}

fn device(name: &Placed<String>, section: &Section<'_, '_>, found: &mut Found<'_>) -> Option<DeviceConfig> {
    named("a device", name, found);
    let spec = section.required("spec", found);
    let mut device = DeviceConfig {
        description: section.text("description", found).map(|text| text.value),
        read_only: section.switch("read_only", found),
        force: section.switch("force", found),
        allow_in_use: section.switch("allow_in_use", found),
        ..DeviceConfig::new(&name.value, "")
    };
    if let Some(limits) = section.table("limits", keys::LIMITS, found) {
        device.limits = DeviceLimits {
            iops: limits.count("iops", found),
            bandwidth: limits.size("bandwidth", found),
            burst: span(limits.time("burst", found)),
            depth: u32::try_from(limits.count("depth", found)).unwrap_or(u32::MAX),
        };
    }
    if let Some(limits) = section.table("client_limits", keys::CLIENT_LIMITS, found) {
        device.client_limits = ClientLimits {
            iops: limits.count("iops", found),
            bandwidth: limits.size("bandwidth", found),
            burst: span(limits.time("burst", found)),
            weight: u32::try_from(limits.count("weight", found)).unwrap_or(u32::MAX),
        };
    }
    let spec = spec?;
    // Only its syntax: files that it names are opened when the server starts.
    if !spec.value.starts_with('@')
        && let Err(error) = registry::parse(&spec.value)
    {
        found.add(&spec.span, format!("spec: {}", error.to_string().replace('\n', "\n  ")));
    }
    device.spec = conceal(&spec.value).into_owned();
    Some(device)
}

fn export(name: &Placed<String>, section: &Section<'_, '_>, found: &mut Found<'_>) -> Option<ExportConfig> {
    named("an export", name, found);
    let kind = section.required("kind", found);
    let address = section.required("address", found);
    let kind = kind?;
    if table::find(&kind.value).is_none() {
        let names: Vec<&str> = table::TABLE.iter().map(|row| row.name).collect();
        let message = format!("kind is \"{}\"; there are {}", excerpt(&kind.value, 60), names.join(", "));
        found.add(&kind.span, message);
    }
    let mut config = ExportConfig::new(&name.value, &kind.value, &address?.value);
    let options = &mut config.options;
    options.depth = usize::try_from(section.count("depth", found)).unwrap_or(usize::MAX);
    options.client_memory_bytes = usize::try_from(section.size("client_memory", found)).unwrap_or(usize::MAX);
    options.handshake_timeout = section.time("handshake_timeout", found);
    options.allow_other = section.switch("allow_other", found);
    options.kernel_cache = section.switch("kernel_cache", found);
    options.sparse_reads = section.switch("sparse_reads", found);
    encryption(section, options, found);
    initiators(section, options, found);
    Some(config)
}

/// Reads the names and the secret of iSCSI targets.
fn initiators(section: &Section<'_, '_>, options: &mut Options, found: &mut Found<'_>) {
    let prefix = section.text("iscsi_prefix", found);
    let (user, secret) = (section.text("chap_user", found), section.text("chap_secret", found));
    #[cfg(feature = "iscsi")]
    {
        if let Some(prefix) = prefix {
            options.iscsi.prefix = prefix.value;
        }
        match (user, secret) {
            (Some(user), Some(secret)) => match Chap::load(&user.value, secret.value.as_ref()) {
                Ok(chap) => options.iscsi.chap = Some(chap),
                Err(error) => found.add(&secret.span, error.to_string()),
            },
            (Some(one), None) | (None, Some(one)) => {
                found.add(&one.span, "CHAP needs both chap_user and chap_secret".to_owned());
            }
            (None, None) => {}
        }
    }
    #[cfg(not(feature = "iscsi"))]
    {
        let _ = options;
        if let Some(given) = prefix.or(user).or(secret) {
            found.add(&given.span, "this program was built without iSCSI".to_owned());
        }
    }
}

/// Reads the certificate and the key of an export.
fn encryption(section: &Section<'_, '_>, options: &mut Options, found: &mut Found<'_>) {
    let certificate = section.text("tls_certificate", found);
    let key = section.text("tls_key", found);
    let authorities = section.text("tls_client_authorities", found);
    let optional = section.switch("tls_optional", found);
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if authorities.is_none() && !optional => return,
        (certificate, key) => {
            let given = certificate.or(key).or(authorities).map_or(0..0, |text| text.span);
            return found.add(&given, "TLS needs both tls_certificate and tls_key".to_owned());
        }
    };
    #[cfg(feature = "tls")]
    {
        let files = TlsFiles {
            certificate: certificate.value.into(),
            key: key.value.into(),
            client_authorities: authorities.map(|path| path.value.into()),
        };
        match Tls::load(files, !optional) {
            Ok(tls) => options.tls = Some(tls),
            Err(error) => found.add(&certificate.span, error.to_string()),
        }
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = (options, key);
        found.add(&certificate.span, "this program was built without TLS".to_owned());
    }
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
