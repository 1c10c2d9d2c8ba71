/** Log lines for people at a terminal: the time, the level, the message and its fields. */
type Line = Readonly<Record<string, unknown>> & { readonly level: number; readonly time: number; readonly msg?: string }

const LEVELS: Readonly<Record<number, string>> = { 30: 'info ', 40: 'WARN ', 50: 'ERROR' }
const COLORS: Readonly<Record<number, string>> = { 40: '\u001b[33m', 50: '\u001b[31m' }
const RESET = '\u001b[0m'

/** Lines of JSON, each as one line of text. What is no JSON stays as it is. */
export function prettyLines(text: string, { isColored }: { readonly isColored: boolean }): string {
  return text
    .split('\n')
    .map((line) => (line.startsWith('{') ? prettyLine(line, isColored) : line))
    .join('\n')
}

function prettyLine(text: string, isColored: boolean): string {
  const { level, time, msg = '', ...fields } = JSON.parse(text) as Line
  const clock = new Date(time).toTimeString().slice(0, 8)
  const { method, path, status, ms, id: _id, ip, ...rest } = fields
  const isAccess = msg === 'request' && method !== undefined
  const message = isAccess ? `${status} ${method} ${path} ${ms} ms ${ip}` : msg
  const details = Object.entries(isAccess ? rest : fields).map(([name, value]) => `${name}=${JSON.stringify(value)}`)
  const line = [clock, LEVELS[level] ?? String(level), withoutControls([message, ...details].join(' '))].join(' ')
  return isColored && COLORS[level] ? `${COLORS[level]}${line}${RESET}` : line
}

/** A path of a caller must not move the cursor of the operator's terminal. */
const withoutControls = (text: string): string => text.replace(/\p{Cc}/gu, '?')
