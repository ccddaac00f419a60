//! What the converter wrote, checked: only elements and attributes of MathML Core that show something pass.
//!
//! Inline styles become classes of `math.css`, since the served page's content security policy forbids them. Links
//! lose their address. An unknown element makes the formula one that is shown as source.

use crate::escape::escaped;

const ELEMENTS: [&str; 33] = [
    "math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup",
    "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr",
    "mtd", "mpadded", "mphantom", "menclose", "mstyle", "span", "b", "i", "em", "s", "u",
];

const ATTRIBUTES: [&str; 24] = [
    "accent", "accentunder", "columnalign", "columnspan", "depth", "display", "displaystyle", "fence",
    "form", "height", "largeop", "linethickness", "lspace", "mathvariant", "maxsize", "minsize",
    "movablelimits", "notation", "rowspan", "rspace", "scriptlevel", "stretchy", "symmetric", "width",
];

/// The color that stands for a frame: see `MACROS`.
const FRAME: &str = "#9E3C0E";

/// Declarations of inline styles, and the classes that stand for them. All others are left out.
const CLASSES: [(&str, &str); 16] = [
    ("text-align:left", "m-left"),
    ("text-align:right", "m-right"),
    ("padding-left:0", "m-tight-left"),
    ("padding-right:0", "m-tight-right"),
    ("padding-left:1em", "m-wide-left"),
    ("border-left:0.05em solid currentcolor", "m-line-left"),
    ("border-right:0.05em solid currentcolor", "m-line-right"),
    ("border-top:0.05em solid currentcolor", "m-line-top"),
    ("border-bottom:0.05em solid currentcolor", "m-line-bottom"),
    ("border-left:0.05em dashed currentcolor", "m-line-left m-dashed"),
    ("border-right:0.05em dashed currentcolor", "m-line-right m-dashed"),
    ("border-top:0.05em dashed currentcolor", "m-line-top m-dashed"),
    ("border-bottom:0.05em dashed currentcolor", "m-line-bottom m-dashed"),
    ("margin-left:-0.16666667em", "m-closer"),
    ("padding-top:0.1667em", "m-lower"),
    ("font-variant-caps:small-caps", "m-small-caps"),
];

/// The same formula, if all that is in it is known.
pub(super) fn cleaned(mathml: &str) -> Option<String> {
    let mut out = String::with_capacity(mathml.len());
    let mut rest = mathml;
    while let Some((text, after)) = rest.split_once('<') {
        out += &words(text)?;
        let (tag, after) = after.split_once('>')?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            out += &(if is_link(name) { String::new() } else { format!("</{}>", element(name)?) });
            continue;
        }
        let (body, closed) = tag.strip_suffix('/').map_or((tag, ""), |body| (body, "/"));
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        if !is_link(name) {
            out += &format!("<{}{}{closed}>", element(name)?, attributes_of(attributes)?);
        }
    }
    out += &words(rest)?;
    Some(out)
}

fn is_link(name: &str) -> bool {
    name == "a"
}

/// `code` would look like a formula that failed.
fn element(name: &str) -> Option<&str> {
    if name == "code" { Some("span") } else { ELEMENTS.into_iter().find(|known| *known == name) }
}

/// Text between tags: escaped as ours is, whatever the converter made of it.
fn words(text: &str) -> Option<String> {
    if text.contains('>') {
        return None;
    }
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#x27;", "'");
    Some(escaped(&plain.replace("&#39;", "'").replace("&amp;", "&")))
}

fn attributes_of(mut rest: &str) -> Option<String> {
    let (mut out, mut classes) = (String::new(), Vec::new());
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        match name {
            "style" => styles(value, &mut classes, &mut out),
            "class" => classes.push(value.to_owned()),
            known if ATTRIBUTES.contains(&known) && is_plain(value) => {
                out += &format!(" {known}=\"{value}\"");
            }
            _ => {}
        }
    }
    classes.retain(|class| is_plain(class));
    if !classes.is_empty() {
        out += &format!(" class=\"{}\"", classes.join(" "));
    }
    Some(out)
}

fn styles(value: &str, classes: &mut Vec<String>, out: &mut String) {
    for declaration in value.split(';') {
        let Some((property, value)) = declaration.split_once(':') else { continue };
        let (property, value) = (property.trim(), value.trim());
        if property == "color" && value == FRAME {
            classes.push("m-frame".to_owned());
        } else if property == "color" && is_plain(value) {
            *out += &format!(" mathcolor=\"{value}\"");
        } else if let Some((_, class)) =
            CLASSES.iter().find(|(known, _)| known.split_once(':') == Some((property, value)))
        {
            classes.push((*class).to_owned());
        }
    }
}

/// Whether a value is a word, a number or a color.
fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" .%#+-".contains(&byte))
}
