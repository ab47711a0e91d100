//! The look of an organization: name, logo, accent colour and footer, from a small TOML. The PDF's templates read it as
//! data; no other format has it, and no number depends on it.

use rooflens_schemas::manifest::{PathFault, check_path};
use serde::{Deserialize, Serialize};

use super::text::clean;

/// Bytes beyond which a logo is refused.
pub const MAX_LOGO: u64 = 1 << 20;

/// What templates find in `data.brand`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Brand {
    /// Name of the organization; the logo's alternative text.
    pub name: String,
    /// Colour of headings and rules as `#rrggbb`, instead of the built-in one.
    pub accent: Option<String>,
    /// Text at the foot of each page.
    pub footer: Option<String>,
    /// Picture at the head of the first page.
    pub logo: Option<Logo>,
}

/// A logo: PNG or SVG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Logo {
    /// Where templates find it.
    pub path: &'static str,
    /// The picture.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// Why a brand was refused.
#[derive(Debug, thiserror::Error)]
pub enum BrandError {
    /// Not TOML, or not with these keys.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// No colour.
    #[error("accent {0:?} is not of the form \"#0b4f7d\"")]
    Accent(String),
    /// A path that leads out of the folder.
    #[error("the path of logo {0:?} {1}")]
    Path(String, PathFault),
    /// The file could not be read.
    #[error("cannot read logo {0:?}: {1}")]
    Unreadable(String, std::io::Error),
    /// Too large, or of another format.
    #[error("logo {0:?} {1}")]
    Logo(String, &'static str),
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    accent: Option<String>,
    footer: Option<String>,
    logo: Option<String>,
}

impl Brand {
    /// A brand as its TOML says; `read` gives the file at a path next to it, [`MAX_LOGO`] + 1 bytes at most.
    ///
    /// # Errors
    /// Another key, a colour that is none, or a logo that is neither PNG nor SVG.
    pub fn from_toml(
        text: &str,
        read: impl FnOnce(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Self, BrandError> {
        let File {
            name,
            accent,
            footer,
            logo,
        } = toml::from_str(text)?;
        if let Some(accent) = accent.as_ref().filter(|accent| !is_color(accent)) {
            return Err(BrandError::Accent(accent.clone()));
        }
        let logo = logo.map(|path| Logo::read(path, read)).transpose()?;
        Ok(Self {
            name: clean(&name).into_owned(),
            accent,
            footer: footer.map(|text| clean(&text).into_owned()),
            logo,
        })
    }
}

impl Logo {
    fn read(
        path: String,
        read: impl FnOnce(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Self, BrandError> {
        if let Err(fault) = check_path(&path) {
            return Err(BrandError::Path(path, fault));
        }
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(BrandError::Unreadable(path, error)),
        };
        if bytes.len() as u64 > MAX_LOGO {
            return Err(BrandError::Logo(path, "is larger than 1 MiB"));
        }
        let kept = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            "brand/logo.png"
        } else if is_svg(&bytes) {
            "brand/logo.svg"
        } else {
            return Err(BrandError::Logo(path, "is neither PNG nor SVG"));
        };
        Ok(Self { path: kept, bytes })
    }
}

fn is_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Whether this is UTF-8 text whose first element is `svg`, after a declaration and comments.
fn is_svg(bytes: &[u8]) -> bool {
    let Ok(mut rest) = std::str::from_utf8(bytes) else {
        return false;
    };
    rest = rest.trim_start_matches('\u{feff}').trim_start();
    for (start, end) in [("<?xml", "?>"), ("<!--", "-->")] {
        if rest.starts_with(start) {
            rest = rest
                .split_once(end)
                .map_or("", |(_, after)| after)
                .trim_start();
        }
    }
    rest.starts_with("<svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brand(text: &str, logo: &[u8]) -> Result<Brand, String> {
        Brand::from_toml(text, |_| Ok(logo.to_vec())).map_err(|error| error.to_string())
    }

    const SVG: &[u8] =
        b"<?xml version=\"1.0\"?>\n<!-- a -->\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>";

    #[test]
    fn a_brand_is_what_its_file_says() {
        let text = "name = \"A\\u202E\"\naccent = \"#00Ff7a\"\nlogo = \"a/b.svg\"";
        let brand = brand(text, SVG).expect("a brand");
        let logo = Logo {
            path: "brand/logo.svg",
            bytes: SVG.to_vec(),
        };
        let accent = Some("#00Ff7a".to_owned());
        assert_eq!(
            brand,
            Brand {
                name: "A\u{fffd}".to_owned(),
                accent,
                footer: None,
                logo: Some(logo)
            }
        );
    }

    #[test]
    fn what_is_no_brand_is_refused_with_its_reason() {
        let large = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; 1 << 20]].concat();
        let cases: [(&str, &[u8], &str); 8] = [
            ("name = \"A\"\ncolour = \"red\"", b"", "unknown field"),
            ("accent = \"#000000\"", b"", "missing field `name`"),
            (
                "name = \"A\"\naccent = \"red\"",
                b"",
                "accent \"red\" is not of the form",
            ),
            (
                "name = \"A\"\naccent = \"#00000é\"",
                b"",
                "is not of the form",
            ),
            (
                "name = \"A\"\nlogo = \"../b.svg\"",
                SVG,
                "has a part that is empty, \".\" or \"..\"",
            ),
            ("name = \"A\"\nlogo = \"/b.svg\"", SVG, "is absolute"),
            (
                "name = \"A\"\nlogo = \"b.svg\"",
                b"<html><svg/></html>",
                "neither PNG nor SVG",
            ),
            (
                "name = \"A\"\nlogo = \"b.png\"",
                &large,
                "larger than 1 MiB",
            ),
        ];
        for (text, logo, expected) in cases {
            let error = brand(text, logo).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_example_is_a_brand() {
        let logo = include_bytes!("../../../templates/brand-example.svg");
        let brand = brand(include_str!("../../../templates/brand-example.toml"), logo);
        assert!(brand.is_ok_and(|brand| brand.logo.is_some()));
    }
}
