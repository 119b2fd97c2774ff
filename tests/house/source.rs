// SPDX-License-Identifier: GPL-2.0-only
//! What one source file declares, brings into scope and names.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeSet, HashMap};

/// Segments as they are written: `crate`, `super`, names.
pub type Path = Vec<String>;

#[derive(Default)]
pub struct Source {
    /// Modules with files of their own, those of tests excepted.
    pub children: Vec<String>,
    /// Names of the items that are defined here.
    pub items: BTreeSet<String>,
    pub uses: HashMap<String, Use>,
    /// What `use path::*` brings in.
    pub globs: Vec<(Path, usize)>,
    /// Paths outside `use`, names of one segment among them, with the first line of each.
    pub named: HashMap<Path, usize>,
}

pub struct Use {
    pub path: Path,
    pub line: usize,
    pub exported: bool,
}

impl Source {
    pub fn parse(text: &str) -> Source {
        let tokens: TokenStream = text.parse().expect("a source that compiles");
        let mut source = Source::default();
        source.read(&tokens.into_iter().collect::<Vec<_>>());
        source
    }

    fn read(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Punct(mark)
                    if mark.as_char() == '#' && is_of_tests(tokens.get(at + 1)) =>
                {
                    end_of_item(tokens, at + 2)
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end = end_of_item(tokens, at);
                    let exported = at > 0 && is_visibility(&tokens[..at]);
                    self.tree(&tokens[at + 1..end - 1], &[], exported);
                    end
                }
                TokenTree::Ident(word) if is_definition(&word.to_string()) => {
                    self.define(word == "mod", &tokens[at + 1..]);
                    at + 1
                }
                TokenTree::Ident(_) => self.path(tokens, at),
                TokenTree::Group(group) => {
                    self.read(&group.stream().into_iter().collect::<Vec<_>>());
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    fn define(&mut self, module: bool, rest: &[TokenTree]) {
        // `macro_rules! name`
        let rest = match rest {
            [TokenTree::Punct(mark), rest @ ..] if mark.as_char() == '!' => rest,
            rest => rest,
        };
        let Some(TokenTree::Ident(name)) = rest.first() else {
            return;
        };
        let ends = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ';');
        match module && rest.get(1).is_some_and(ends) {
            true => self.children.push(name.to_string()),
            false => drop(self.items.insert(name.to_string())),
        }
    }

    /// A path outside `use`; returns where it ends.
    fn path(&mut self, tokens: &[TokenTree], start: usize) -> usize {
        let line = tokens[start].span().start().line;
        let mut path = vec![tokens[start].to_string()];
        let mut at = start + 1;
        while is_colons(&tokens[at..]) {
            match tokens.get(at + 2) {
                Some(TokenTree::Ident(name)) => path.push(name.to_string()),
                _ => break,
            }
            at += 3;
        }
        self.named.entry(path).or_insert(line);
        at
    }

    /// What follows `use`, or a part of it in braces.
    fn tree(&mut self, tokens: &[TokenTree], prefix: &[String], exported: bool) {
        let commas = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
        for part in tokens.split(commas).filter(|part| !part.is_empty()) {
            let line = part[0].span().start().line;
            let mut path = prefix.to_vec();
            let mut name = None;
            let mut rest = part;
            loop {
                match rest {
                    [TokenTree::Ident(word), TokenTree::Ident(alias)] if word == "as" => {
                        name = Some(alias.to_string());
                        break;
                    }
                    [TokenTree::Ident(word), more @ ..] => {
                        path.push(word.to_string());
                        rest = more;
                    }
                    [TokenTree::Group(group)] => {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.tree(&inner, &path, exported);
                        path.clear();
                        break;
                    }
                    [TokenTree::Punct(mark)] if mark.as_char() == '*' => {
                        self.globs.push((std::mem::take(&mut path), line));
                        break;
                    }
                    [_, more @ ..] => rest = more,
                    [] => break,
                }
            }
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let Some(name) = name.or_else(|| path.last().cloned()) else {
                continue;
            };
            self.uses.insert(name, Use { path, line, exported });
        }
    }
}

fn is_definition(word: &str) -> bool {
    let words = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules"];
    words.contains(&word)
}

/// Whether this is the bracket of `#[cfg(test)]`.
fn is_of_tests(token: Option<&TokenTree>) -> bool {
    token.is_some_and(|token| token.to_string().replace(' ', "") == "[cfg(test)]")
}

/// Behind the next `;` or block.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let is_use = tokens[from].to_string() == "use";
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(mark) => mark.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !is_use,
        _ => false,
    };
    let end = tokens[from..].iter().position(ends);
    end.map_or(tokens.len(), |end| from + end + 1)
}

fn is_colons(tokens: &[TokenTree]) -> bool {
    let colon = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ':');
    matches!(tokens, [one, two, ..] if colon(one) && colon(two))
}

/// Whether `pub` or `pub(…)` is last.
fn is_visibility(tokens: &[TokenTree]) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "pub");
    match tokens {
        [.., word, TokenTree::Group(_)] => is_pub(word),
        [.., word] => is_pub(word),
        [] => false,
    }
}
