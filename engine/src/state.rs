//! What serde lacks to save and load the state of an engine: arrays of any length.

/// Arrays as sequences; for `#[serde(with)]`.
pub(crate) mod array {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer, const N: usize>(
        array: &[T; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        array.as_slice().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>, const N: usize>(
        from: D,
    ) -> Result<[T; N], D::Error> {
        let items = Vec::<T>::deserialize(from)?;
        let found = items.len();
        let wrong = || D::Error::custom(format!("an array of {N} items has {found}"));
        items.try_into().map_err(|_| wrong())
    }
}
