//! Resolves tensors of structs: where fields are, what fills them, and codecs that put scales next to codes.

use super::fill::{Drawn, resolve_fill_of_input};
use super::names::check_identifier;
use super::raw::{RawBlocks, RawCodec, RawField, RawFill, RawType};
use super::scope::Scope;
use super::yaml::{Mistake, Ordered, Spanned};
use model::{Blocks, Codec, CodecScheme, ElemType, Field, Fill, FilledField, Num, Role};

/// The size of the largest struct in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The fields of a struct, laid out as C does it.
pub struct Struct<'a> {
    fields: Vec<PlacedField<'a>>,
    pub bytes: usize,
    is_padded: bool,
}

struct PlacedField<'a> {
    name: &'a Spanned<String>,
    raw: &'a Spanned<RawField>,
    field: Field,
}

pub fn resolve_struct<'a>(
    written: &'a Ordered<Spanned<RawField>>,
    at: &Spanned<RawType>,
    scope: &Scope<'_>,
) -> Result<Struct<'a>, Mistake> {
    let mut fields = Vec::new();
    let (mut end, mut used, mut align) = (0usize, 0, 1);
    for (name, raw) in written.iter() {
        check_identifier(name, "field")?;
        let Some(elem) = raw.elem.elem() else {
            return Err(raw.elem.problem("a field cannot be a struct"));
        };
        let count = match &raw.count {
            None => 1,
            Some(count) => {
                let most = (MAX_BYTES / elem.size()) as i64;
                scope.eval_integer_in(count, "the count", 1..=most)? as usize
            }
        };
        let field = Field {
            offset: end.next_multiple_of(elem.size()),
            elem,
            count,
        };
        end = field.end();
        used += elem.size() * count;
        align = align.max(elem.size());
        if end > MAX_BYTES {
            return Err(scope.problem(name, "the struct takes more than 1 MiB up to here"));
        }
        fields.push(PlacedField { name, raw, field });
    }
    if fields.is_empty() {
        return Err(at.problem("a struct needs at least one field"));
    }
    let bytes = end.next_multiple_of(align);
    Ok(Struct {
        fields,
        bytes,
        is_padded: used < bytes,
    })
}

impl Struct<'_> {
    /// Resolves the rules for the fields of inputs.
    pub fn resolve_fill(
        &self,
        name: &Spanned<String>,
        role: Role,
        fill: Option<&Spanned<RawFill>>,
        structs: u64,
        scope: &Scope<'_>,
    ) -> Result<Option<Fill>, Mistake> {
        let of_field = self.fields.iter().find_map(|field| field.raw.fill.as_ref());
        if role.is_drawn() {
            if let Some(fill) = fill {
                return Err(fill
                    .problem("a struct is filled field by field")
                    .help("type: {struct: {d: {type: f16, fill: {uniform: {low: 0, high: 1}}}}}"));
            }
            let fields = self.fields.iter().map(|placed| {
                let count = structs.saturating_mul(placed.field.count as u64);
                let elem = placed.field.elem;
                let fill = resolve_fill_of_input(
                    placed.name,
                    placed.raw.at,
                    placed.raw.fill.as_ref(),
                    Drawn {
                        elem,
                        floats: elem.is_float(),
                        is_coded: false,
                        elements: count,
                        width: placed.field.count as u64,
                    },
                    scope,
                )?;
                Ok(FilledField {
                    name: placed.name.value.clone(),
                    field: placed.field.clone(),
                    fill,
                })
            });
            return Ok(Some(Fill::Struct {
                fields: fields.collect::<Result<_, Mistake>>()?,
            }));
        }
        if let Some(fill) = of_field {
            return Err(fill.problem(format!("`{name}` is not an input: `fill` is not allowed")));
        }
        if role == Role::Out && self.is_padded {
            return Err(name
                .problem(format!(
                    "the structs of `{name}` have bytes in no field, which nothing writes"
                ))
                .help("declare them as a field, or order the fields by size"));
        }
        match fill {
            None => Ok(None),
            Some(Spanned {
                value: RawFill::Zeros,
                ..
            }) => Ok(Some(Fill::Constant { value: Num(0.0) })),
            Some(fill) => Err(fill.problem("scratch of structs can start with zeros only")),
        }
    }

    /// Resolves the codec of a tensor. `dims` says how many structs it has.
    pub fn resolve_codec(
        &self,
        spot: &Spanned<RawCodec>,
        dims: &[usize],
        scope: &Scope<'_>,
    ) -> Result<Codec, Mistake> {
        let RawCodec::Blocks(raw) = &spot.value else {
            return Err(spot
                .problem("the codec of a struct is `blocks`")
                .help("codec: {blocks: {scale: d, codes: qs}}"));
        };
        let (scale, codes) = (self.find(&raw.scale)?, self.find(&raw.codes)?);
        let sum = raw.sum.as_ref().map(|name| self.find(name)).transpose()?;
        let named = [Some(scale), Some(codes), sum];
        for placed in &self.fields {
            match named
                .iter()
                .flatten()
                .filter(|other_place| other_place.name.at == placed.name.at)
                .count()
            {
                0 => {
                    return Err(placed.name.problem(format!(
                        "the codec says nothing of the field `{}`",
                        placed.name.value
                    )));
                }
                1 => {}
                _ => {
                    return Err(
                        spot.problem(format!("the field `{}` is named twice", placed.name.value))
                    );
                }
            }
            if let Some(fill) = &placed.raw.fill {
                return Err(fill.problem("a field of a codec has no `fill`"));
            }
        }
        for one in [Some(scale), sum].into_iter().flatten() {
            if !one.field.elem.is_float() || one.field.count != 1 {
                return Err(one
                    .name
                    .problem(format!("`{}` must be one float", one.name.value)));
            }
        }
        let (levels, zero_point) = resolve_levels(raw, codes, scope)?;
        let mut values = dims.to_vec();
        let mut blocks = Blocks {
            values: Vec::new(),
            scale: scale.field.clone(),
            codes: codes.field.clone(),
            sum: sum.map(|sum| sum.field.clone()),
            nibbles: raw.nibbles,
            levels,
            zero_point,
        };
        let each = blocks.values_each();
        match values.last_mut() {
            Some(last) => {
                *last = last
                    .checked_mul(each)
                    .ok_or_else(|| scope.problem(spot, "the tensor takes more than 16 GiB"))?;
            }
            None => values.push(each),
        }
        let mut block = vec![1; values.len()];
        if let Some(last) = block.last_mut() {
            *last = each;
        }
        blocks.values = values;
        Ok(Codec {
            scheme: CodecScheme::Blocks(blocks),
            block,
        })
    }

    fn find(&self, name: &Spanned<String>) -> Result<&PlacedField<'_>, Mistake> {
        self.fields
            .iter()
            .find(|field| field.name.value == name.value)
            .ok_or_else(|| {
                let known = self.fields.iter().map(|field| field.name.as_str());
                name.unknown("field", known)
            })
    }
}

fn resolve_levels(
    raw: &RawBlocks,
    codes: &PlacedField<'_>,
    scope: &Scope<'_>,
) -> Result<(Num, i64), Mistake> {
    let (low, high, most, offset) = match (codes.field.elem, raw.nibbles) {
        (ElemType::U8, Some(_)) => (0, 15, 8, 8),
        (ElemType::I8, None) => (-128, 127, 127, 0),
        (ElemType::U8, None) => (0, 255, 127, 128),
        (_, Some(_)) => {
            return Err(codes.name.problem("two codes share a byte of type u8"));
        }
        (elem, None) => {
            let (low, high) = elem
                .range()
                .filter(|_| elem.size() <= 2)
                .ok_or_else(|| codes.name.problem("codes are of i8, u8, i16 or u16"))?;
            (low, high, (high - low) / 2, (low + high + 1) / 2)
        }
    };
    let zero = match &raw.zero_point {
        None => offset,
        Some(zero) => scope.eval_integer_in(zero, "the zero point", low..=high)?,
    };
    // As q4_0 has it, the largest positive code may be one that there is not.
    let room = (zero - low).max(high - zero);
    let levels = match &raw.levels {
        None => most.min(room),
        Some(levels) => scope.eval_integer_in(levels, "levels", 1..=room)?,
    };
    Ok((Num(levels as f64), zero))
}
