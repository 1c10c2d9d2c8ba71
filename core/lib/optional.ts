/**
 * Loads an optional package. When it is not installed, throws an Error that names the package and the feature that
 * needs it.
 */
export async function optional<T>(name: string, need: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    if (!/Cannot find (?:module|package)/.test(String(cause))) throw cause
    const how = `run: bun add ${name} (optional dependencies must not be omitted)`
    throw new Error(`${need} needs the package ${name}, which is not installed; ${how}`, { cause })
  }
}
