//! Patterns in addresses: `*` is any letters but a slash, `**` any letters, `?` one letter but a slash.

/// Whether a path has a pattern in it.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// The folders before the first pattern, with their last slash.
pub(crate) fn fixed_folder(pattern: &str) -> &str {
    let fixed = pattern.find(['*', '?']).map_or(pattern, |at| &pattern[..at]);
    &fixed[..fixed.rfind('/').map_or(0, |at| at + 1)]
}

/// Whether a path matches a pattern. Takes no more than the product of their lengths.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    #[derive(PartialEq)]
    enum Part {
        Letter(char),
        One,
        Some,
        Any,
    }
    let mut parts = Vec::new();
    for letter in pattern.chars() {
        match (letter, parts.last()) {
            ('*', Some(Part::Some | Part::Any)) => {
                parts.pop();
                parts.push(Part::Any);
            }
            ('*', _) => parts.push(Part::Some),
            ('?', _) => parts.push(Part::One),
            (letter, _) => parts.push(Part::Letter(letter)),
        }
    }
    // States of the pattern that the path read so far can be in.
    let close = |states: &mut Vec<bool>| {
        for at in 0..parts.len() {
            if states[at] && matches!(parts[at], Part::Some | Part::Any) {
                states[at + 1] = true;
            }
        }
    };
    let mut states = vec![false; parts.len() + 1];
    states[0] = true;
    close(&mut states);
    for letter in path.chars() {
        let mut next = vec![false; parts.len() + 1];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| states[*at]) {
            match part {
                Part::Letter(expected) => next[at + 1] |= *expected == letter,
                Part::One => next[at + 1] |= letter != '/',
                Part::Some => next[at] |= letter != '/',
                Part::Any => next[at] = true,
            }
        }
        close(&mut next);
        states = next;
    }
    states[parts.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("a/*.jsonl", "a/b.jsonl", true),
            ("a/*.jsonl", "a/b/c.jsonl", false),
            ("a/**.jsonl", "a/b/c.jsonl", true),
            ("**/train-*.parquet", "x/y/train-00000-of-00002.parquet", true),
            ("data/train-?.json", "data/train-1.json", true),
            ("data/train-?.json", "data/train-12.json", false),
            ("*", "", true),
            ("a", "b", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        assert_eq!(fixed_folder("a/b/c*.json"), "a/b/");
        assert_eq!(fixed_folder("*.json"), "");
        let hostile = "*a".repeat(200);
        assert!(!matches(&hostile, &"b".repeat(2_000)));
    }
}
