//! A report as one HTML file that needs nothing else: no scripts, no fonts, no network.

use super::Table;
use super::svg::{Chart, PALETTE};
use super::text::escape;

/// Width of the plots on a narrow and on a wide screen, in pixels.
const NARROW: u32 = 328;
const WIDE: u32 = 720;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1c1e;--dim:#5c5c62;--line:#dcdce0;--axis:#85858c;--head:#f3f3f5;--edge:#0005;LIGHT}
@media(prefers-color-scheme:dark){:root{--bg:#161618;--fg:#ececee;--dim:#a5a5ad;--line:#37373c;--axis:#8a8a92;\
--head:#222226;--edge:#fff5;DARK}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;width:fit-content;min-width:min(100%,752px);max-width:100%;background:var(--bg);color:var(--fg);\
font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6em;line-height:1.25;margin:.4em 0 .6em}
h2{font-size:1.25em;line-height:1.3;margin:1.8em 0 .5em}
h3{font-size:1em;margin:1.4em 0 .4em}
h1,h2,h3,p,dl,pre,figure{max-width:720px}
figure{margin:1.4em 0}
figcaption{font-weight:600;margin-bottom:.5em}
.wide{margin:.8em 0;overflow-x:auto;background:linear-gradient(to right,var(--bg) 40%,transparent),\
linear-gradient(to left,var(--bg) 40%,transparent) 100% 0,linear-gradient(to right,var(--edge),transparent),\
linear-gradient(to left,var(--edge),transparent) 100% 0;background-size:40px 100%,40px 100%,14px 100%,14px 100%;\
background-attachment:local,local,scroll,scroll;background-repeat:no-repeat}
table{border-collapse:collapse;font-size:.875em;font-variant-numeric:tabular-nums;\
overflow-wrap:normal}
th,td{padding:.3em .7em;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{background:var(--head);vertical-align:bottom;white-space:nowrap}
.num{text-align:right;white-space:nowrap}
.long{min-width:20em;max-width:48em}
.unit{font-weight:400;color:var(--dim)}
tr.rule td{border-top:2px solid var(--axis)}
tr.dim td{color:var(--dim)}
tr.good td{background:#2a9d3a26}tr.fair td{background:#c9b20026}tr.poor td{background:#e0801a33}tr.bad td{background:#d0302f40}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;margin:.8em 0;font-size:.9375em}
dt{color:var(--dim)}
dd{margin:0}
pre{overflow-x:auto;padding:.7em;background:var(--head);font-size:.8125em;overflow-wrap:normal}
svg{display:block;max-width:100%;height:auto;font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",\
sans-serif}
svg.small{display:none}
@media(max-width:560px){body{padding:16px}svg.small{display:block}svg.large{display:none}\
dl{grid-template-columns:1fr}dd{margin-bottom:.4em}}
@media print{.wide{overflow:visible}table{font-size:.7em}.long{min-width:0}}
.t,.v{fill:var(--fg);paint-order:stroke;stroke:var(--bg);stroke-width:3px}
.p{fill-opacity:.5}
.k{fill:var(--dim);font-size:11px}
.v{font-size:10px}
.g{stroke:var(--line)}
.a{stroke:var(--axis)}
.w{stroke:var(--fg);stroke-width:1.2}
.r{stroke:var(--fg);stroke-dasharray:4 3}
.l{fill:none;stroke-width:2;stroke-linejoin:round}
.h1{fill-opacity:.14}.h2{fill-opacity:.24}.h3{fill-opacity:.35}.h4{fill-opacity:.47}.h5{fill-opacity:.6}.h6{fill-opacity:.73}\
.h7{fill-opacity:.86}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2 2}.d3{stroke-dasharray:9 3 2 3}
";

/// An HTML page under construction. Everything that is handed in is escaped.
///
/// The page follows the light or dark mode of the reader and is legible from 360 pixels of width on. Text is as wide as
/// lines can be read; tables take the width of the screen.
///
/// ```
/// use platter_bench::report::{Column, HtmlReport, Table};
/// let mut table = Table::new([Column::text("rung"), Column::number("rate", "MiB/s")]);
/// table.row(["bio", "98765"]);
/// let mut page = HtmlReport::new("Table 3 on this machine");
/// page.paragraph("Measured on <this> machine.").table(&table);
/// let html = page.finish();
/// assert!(html.contains("Measured on &lt;this&gt; machine."));
/// ```
#[derive(Debug, Clone)]
pub struct HtmlReport {
    title: String,
    body: String,
}

impl HtmlReport {
    /// An empty page; the title is also its main heading.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new() }
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Self {
        self.body += &format!("<{name}>{}</{name}>\n", escape(text));
        self
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.element("h2", text)
    }

    /// Begins a part of a section.
    pub fn subheading(&mut self, text: &str) -> &mut Self {
        self.element("h3", text)
    }

    /// A paragraph of text.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.element("p", text)
    }

    /// Text whose line breaks and spaces are kept: commands, output.
    pub fn preformatted(&mut self, text: &str) -> &mut Self {
        self.element("pre", text)
    }

    /// Names and facts: the machine, the kernel, the options of the run.
    pub fn facts<N: AsRef<str>, F: AsRef<str>>(
        &mut self,
        facts: impl IntoIterator<Item = (N, F)>,
    ) -> &mut Self {
        self.body += "<dl>\n";
        for (name, fact) in facts {
            self.body += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name.as_ref()), escape(fact.as_ref()));
        }
        self.body += "</dl>\n";
        self
    }

    /// A table. It is as wide as it needs to be; a table that is wider than the screen scrolls separately and
    /// is never truncated: a shadow shows on which side there is more of it.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += "<div class=\"wide\">\n";
        self.body += &table.to_html();
        self.body += "</div>\n";
        self
    }

    /// A plot under its title, with a text below it (may be empty). It is drawn twice, for narrow and for wide
    /// screens, so that its text is never scaled down.
    pub fn chart(&mut self, chart: &dyn Chart, note: &str) -> &mut Self {
        self.body += &format!("<figure>\n<figcaption>{}</figcaption>\n", escape(chart.title()));
        for (class, width) in [("large", WIDE), ("small", NARROW)] {
            let svg = chart.svg(width);
            self.body += &svg.replacen("<svg ", &format!("<svg class=\"{class}\" "), 1);
            self.body.push('\n');
        }
        if !note.is_empty() {
            self.element("p", note);
        }
        self.body += "</figure>\n";
        self
    }

    /// The whole page.
    pub fn finish(&self) -> String {
        let title = escape(&self.title);
        let (mut light, mut dark, mut classes) = (String::new(), String::new(), String::new());
        for (i, (on_light, on_dark)) in PALETTE.iter().enumerate() {
            light += &format!("--c{i}:{on_light};");
            dark += &format!("--c{i}:{on_dark};");
            classes += &format!(".f{i}{{fill:var(--c{i})}}.s{i}{{stroke:var(--c{i})}}\n");
        }
        let style = STYLE.replace("LIGHT", &light).replace("DARK", &dark) + &classes;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
             <style>\n{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}</body>\n</html>\n",
            self.body
        )
    }
}
