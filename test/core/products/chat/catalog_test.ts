import { describe, expect, test } from 'bun:test'
import { type ChatOverride, overrideChat } from '../../../../core/products/chat/catalog/overrides.ts'
import { catalog } from '../../../../core/products/catalog.ts'
import { type ChatRow, EFFORTS } from '../../../../core/ports/vendors/chat.ts'
import { chatRows } from '../../../../core/products/chat/catalog/mod.ts'
import { dollars } from '../../../../core/x402/money.ts'

const { chat } = catalog()

function known(id: string): ChatRow {
  const row = chat.get(id)
  if (!row) throw new Error(`there is no row ${id}`)
  return row
}

const of = (vendor: string): readonly ChatRow[] => chatRows.filter((row) => row.vendor === vendor)
const series = (...upstream: readonly string[]) =>
  chatRows.filter((row) => upstream.some((start) => row.upstream.startsWith(start)))
const number = ({ num, den }: { num: bigint; den: bigint }): number => Number(num) / Number(den)
const [FLAGSHIP, LARGE, SMALL] = ['vendor-a/chat-6-flagship', 'vendor-a/chat-6-large', 'vendor-a/chat-6-small']

describe('the chat catalog', () => {
  test('has rows of every maker, and each is complete', () => {
    expect([...new Set(chatRows.map(({ vendor }) => vendor))]).toEqual([
      'vendor-a',
      'vendor-b',
      'vendor-c',
      'vendor-d',
      'vendor-g',
      'vendor-h',
      'vendor-open',
      'embedded',
    ])
    for (const row of chatRows) {
      expect(row.id).toMatch(/^(vendor-[a-z]+|farebox)\/[a-z0-9.-]+$/)
      for (const text of [row.name, row.description, row.upstream]) expect(text).toMatch(/^[\x20-\x7e]+$/)
      expect({
        id: row.id,
        fits: row.maxOutput <= row.contextWindow && row.maxOutput > 0 && row.categories.length > 0,
      }).toEqual({ id: row.id, fits: true })
      expect([row.id, row.images !== undefined]).toEqual([row.id, row.categories.includes('vision')])
      expect(new Date(row.created * 1000).toISOString()).toMatch(/^202[4-6]-\d\d-\d\dT00:00:00.000Z$/)
    }
  })

  test('is found by the makers’ own ids, dotted and dashed, with and without the maker (contract 8.7)', () => {
    const called = {
      'vendor-a/chat-6-large': ['openai/gpt-6-sol', 'gpt-6-sol'],
      'vendor-a/chat-6.1-large': ['openai/gpt-6.1-sol', 'gpt-6.1-sol', 'openai/gpt-6-1-sol', 'gpt-6-1-sol'],
      'vendor-g/chat-4.6-medium': [
        'anthropic/claude-sonnet-4.6',
        'anthropic/claude-sonnet-4-6',
        'claude-sonnet-4.6',
        'claude-sonnet-4-6',
      ],
      'vendor-g/chat-4.5-small': ['claude-haiku-4-5-20251001', 'anthropic/claude-haiku-4.5'],
      'vendor-b/chat-3.1-pro': ['google/gemini-3.1-pro', 'gemini-3-1-pro', 'gemini-3.1-pro-preview'],
      'vendor-c/chat-4.20-reasoning': ['xai/grok-4.20-reasoning', 'grok-4-20-reasoning'],
      'vendor-h/reasoner-4': ['deepseek/deepseek-reasoner', 'deepseek-reasoner'],
      'vendor-open/gpt-oss-120b': ['openai/gpt-oss-120b', 'nvidia/gpt-oss-120b', 'gpt-oss-120b'],
    }
    for (const [id, names] of Object.entries(called))
      for (const name of [id, ...names]) expect([name, chat.get(name)?.id]).toEqual([name, id])
  })

  test('sends upstream what the maker calls it', () => {
    const ids = [
      FLAGSHIP,
      'vendor-g/chat-5.5-large',
      'vendor-h/reasoner-4',
      'vendor-open/gpt-oss-20b',
      'farebox/echo-free',
    ]
    expect(ids.map((id) => known(id).upstream)).toEqual([
      'gpt-6-astra',
      'claude-opus-5-5',
      'deepseek-flash',
      'openai/gpt-oss-20b',
      'echo',
    ])
  })

  test('of the six-series refuses sampling, and takes tools over responses', () => {
    const six = series('gpt-6')
    expect(six).toHaveLength(7)
    for (const { refuses, toolsByResponses, effort } of six) {
      expect([...(refuses ?? [])].sort()).toEqual([
        'frequency_penalty',
        'logit_bias',
        'logprobs',
        'presence_penalty',
        'stop',
        'temperature',
        'top_logprobs',
        'top_p',
      ])
      expect([toolsByResponses, effort?.scalesQuote, effort?.defaultWithTools]).toEqual([true, true, 'medium'])
      expect(Object.keys(effort?.sent ?? {}).sort()).toEqual([...EFFORTS].sort())
    }
  })

  test('of the six-series lowers max on plain chat and keeps it with tools', () => {
    for (const { effort } of series('gpt-6')) {
      expect([effort?.sent.max, effort?.withTools?.max]).toEqual(['xhigh', 'max'])
      for (const same of ['low', 'medium', 'high', 'xhigh'] as const)
        expect([effort?.sent[same], effort?.withTools?.[same]]).toEqual([same, same])
    }
  })

  test('raises none and minimal on the flagship and its refreshes; the smaller tiers accept none', () => {
    const raised = ({ effort }: ChatRow) => [
      effort?.sent.none,
      effort?.sent.minimal,
      effort?.withTools?.none,
      effort?.withTools?.minimal,
    ]
    for (const row of series('gpt-6-astra', 'gpt-6.1-sol', 'gpt-6.2'))
      expect(raised(row)).toEqual(['low', 'low', 'low', 'low'])
    for (const row of series('gpt-6-sol', 'gpt-6-luna')) expect(raised(row)).toEqual(['none', 'low', 'none', 'low'])
  })

  test('forces effort none with tools on the five-point-six series alone; max is the six-series’ own, and only it scales a quote', () => {
    const forced = chatRows.filter(({ effort }) => effort?.forcedWithTools !== undefined)
    expect(forced).toEqual([...series('gpt-5.6')])
    for (const { effort } of forced) expect(effort?.forcedWithTools).toBe('none')
    expect(chatRows.filter(({ effort }) => effort?.sent.max !== undefined)).toEqual([...series('gpt-6')])
    expect(chatRows.filter(({ effort }) => effort?.scalesQuote)).toEqual([...series('gpt-6')])
  })

  test('begins long prompts where the contract says, at its multiples (contract 6.40)', () => {
    const long = {
      'vendor-a': { from: 272_001, input: 2, output: 1.5 },
      'vendor-b': { from: 200_001, input: 2, output: 1.5 },
      'vendor-c': { from: 200_000, input: 2, output: 2 },
    }
    const seen = new Set<string>()
    for (const { vendor, billing } of chatRows) {
      if (billing.mode !== 'paid' || !billing.long) continue
      seen.add(vendor)
      const { from, input, output } = billing.long
      expect({
        from,
        input: number(input) / number(billing.input),
        output: number(output) / number(billing.output),
      }).toEqual(long[vendor as keyof typeof long])
    }
    expect([...seen]).toEqual(Object.keys(long))
    expect(of('vendor-c').every(({ billing }) => billing.mode === 'paid' && billing.long)).toBe(true)
  })

  test('searches live at 0.30 on 4.5, 4.6, 4.7 and 4.20, at 0.12 on 4.3, and nowhere else (contract 6.17)', () => {
    const searching = chatRows
      .filter(({ liveSearch }) => liveSearch)
      .map(({ upstream, liveSearch }) => [upstream, number(liveSearch ?? dollars('0'))])
    expect(Object.fromEntries(searching)).toEqual({
      'grok-4.7': 0.3,
      'grok-4.6': 0.3,
      'grok-4.5': 0.3,
      'grok-4.20-reasoning': 0.3,
      'grok-4.20-non-reasoning': 0.3,
      'grok-4.3': 0.12,
    })
  })

  test('strips sampling from the newest large models of vendor-g, which cache prompts and may know no forced tools', () => {
    for (const { promptCache } of of('vendor-g')) expect(promptCache).toBe(true)
    expect(
      chatRows.filter(({ strips }) => strips).map(({ strips, vendor }) => [...(strips ?? []), vendor].join()),
    ).toEqual(Array(7).fill('temperature,top_p,top_k,vendor-g'))
    expect(chatRows.filter(({ noForcedTools }) => noForcedTools).map(({ upstream }) => upstream)).toEqual([
      'claude-fable-5-1',
      'claude-opus-5-5',
      'claude-sonnet-5-5',
    ])
  })

  test('forwards structured output to compatible vendors and emulates it at the others', () => {
    const how = new Set(chatRows.map(({ vendor, structured }) => `${vendor} ${structured}`))
    expect([...how].filter((each) => each.endsWith('emulated'))).toEqual(['vendor-b emulated', 'vendor-g emulated'])
    expect(how.size).toBe(8)
  })

  test('counts images by the rule of their maker, and opens a maker’s own surface', () => {
    const rules = { 'vendor-a': 'tiles_512', 'vendor-b': 'tiles_768', 'vendor-c': 'tiles_448', 'vendor-g': 'area_750' }
    for (const [vendor, rule] of Object.entries(rules))
      expect(of(vendor).every(({ images }) => images === rule)).toBe(true)
    for (const row of of('vendor-b')) expect(row.surfaces).toEqual(['generate_content'])
  })

  test('routes the free set among itself, and nothing to the echo model', () => {
    const free = chatRows.filter(({ billing, vendor }) => billing.mode === 'free' && vendor !== 'embedded')
    expect(free.length).toBeGreaterThanOrEqual(5)
    for (const row of free) expect([...(row.fallbacks ?? []), row.id].sort()).toEqual(free.map(({ id }) => id).sort())
    expect(chatRows.flatMap(({ fallbacks = [] }) => fallbacks).filter((id) => known(id).vendor === 'embedded')).toEqual(
      [],
    )
  })

  test('has flat prices of 0.001 and 0.002 alone (contract 6.41)', () => {
    const prices = chatRows.flatMap(({ billing }) => (billing.mode === 'flat' ? [number(billing.price)] : []))
    expect([...new Set(prices)].sort()).toEqual([0.001, 0.002])
  })

  test('calls the embedded rows what they are', () => {
    for (const { name, description, vendor, upstream, contextWindow, maxOutput } of [
      known('farebox/echo'),
      known('farebox/echo-free'),
    ]) {
      expect([vendor, upstream, contextWindow, maxOutput]).toEqual(['embedded', 'echo', 32_768, 8_192])
      for (const text of [name, description]) expect(text).toContain('no model')
    }
    expect(known('farebox/echo').surfaces).toEqual(['generate_content'])
  })

  test('keeps its own rules: nothing that an empty set of overrides would complain of', () => {
    expect(overrideChat(chatRows, [])).toEqual({ rows: [...chatRows], mistakes: [] })
    expect(
      overrideChat(
        chatRows,
        chatRows.filter(({ fallbacks }) => fallbacks).map(({ id, fallbacks = [] }) => ({ id, fallbacks })),
      ).mistakes,
    ).toEqual([])
  })
})

const NEW = {
  id: 'house/talker',
  vendor: 'local',
  upstream: 'talker-9',
  context_window: 8192,
  max_output: 4096,
  input: '0.1',
  output: '0.2',
} as const satisfies ChatOverride
const mistakes = (...overrides: readonly ChatOverride[]) => overrideChat(chatRows, overrides).mistakes

function row(id: string, ...overrides: readonly ChatOverride[]): ChatRow {
  const { rows, mistakes } = overrideChat(chatRows, overrides)
  expect(mistakes).toEqual([])
  const found = catalog({ chat: rows }).chat.get(id)
  if (!found) throw new Error(`there is no row ${id}`)
  return found
}

describe('an override of a chat row', () => {
  test('changes what it names, and leaves the rest of the row and the other rows alone', () => {
    const changes: readonly [Omit<ChatOverride, 'id'>, Partial<ChatRow>][] = [
      [{ aliases: ['a', 'b'] }, { aliases: ['a', 'b'] }],
      [
        { name: 'Talker', description: 'Talks.', maker: 'house' },
        { name: 'Talker', description: 'Talks.', maker: 'house' },
      ],
      [
        { vendor: 'local', upstream: 'talker-9' },
        { vendor: 'local', upstream: 'talker-9' },
      ],
      [
        { created: 7, context_window: 9000, max_output: 90 },
        { created: 7, contextWindow: 9000, maxOutput: 90 },
      ],
      [
        { categories: ['chat'], structured: 'emulated', images: 'area_750' },
        { categories: ['chat'], structured: 'emulated', images: 'area_750' },
      ],
      [
        { strips: ['seed'], refuses: [] },
        { strips: ['seed'], refuses: [] },
      ],
      [
        { no_forced_tools: true, tools_by_responses: false, prompt_cache: true },
        { noForcedTools: true, toolsByResponses: false, promptCache: true },
      ],
      [{ live_search: '0.2' }, { liveSearch: dollars('0.2') }],
      [{ surfaces: [] }, { surfaces: [] }],
      [{ reads: ['audio'] }, { reads: ['audio'] }],
      [{ fallbacks: [SMALL] }, { fallbacks: [SMALL] }],
      [{ hidden: true }, { hidden: true }],
    ]
    for (const [words, change] of changes) {
      const { rows, mistakes } = overrideChat(chatRows, [{ id: LARGE, ...words }])
      expect(mistakes).toEqual([])
      expect(rows).toEqual(chatRows.map((each) => (each.id === LARGE ? { ...each, ...change } : each)))
    }
  })

  test('changes single rates and keeps the others', () => {
    const was = known(LARGE).billing
    if (was.mode !== 'paid') throw new Error(was.mode)
    expect(row(LARGE, { id: LARGE, input: '3' }).billing).toEqual({ ...was, input: dollars('3') })
    expect(row(LARGE, { id: LARGE, cache_write: '7', output: '11' }).billing).toEqual({
      ...was,
      cacheWrite: dollars('7'),
      output: dollars('11'),
    })
    expect(row(LARGE, { id: LARGE, long: { from: 10, input: '5', output: '6' } }).billing).toEqual({
      ...was,
      long: { from: 10, input: dollars('5'), output: dollars('6') },
    })
  })

  test('makes a row flat, free or paid', () => {
    expect(row(LARGE, { id: LARGE, flat: '0.004' }).billing).toEqual({ mode: 'flat', price: dollars('0.004') })
    expect(row(LARGE, { id: LARGE, free: true }).billing).toEqual({ mode: 'free' })
    expect(row('farebox/echo-free', { id: 'farebox/echo-free', free: false, input: '1', output: '2' }).billing).toEqual(
      { mode: 'paid', input: dollars('1'), output: dollars('2') },
    )
  })

  test('adds a row, which has to say what it cannot inherit', () => {
    const inherited = {
      aliases: [],
      name: NEW.id,
      description: '',
      maker: 'local',
      created: 1_795_132_800,
      categories: ['chat'] as const,
      structured: 'forwarded' as const,
    }
    const billing = { mode: 'paid' as const, input: dollars('0.1'), output: dollars('0.2') }
    expect(row(NEW.id, NEW)).toEqual({
      ...inherited,
      id: NEW.id,
      vendor: 'local',
      upstream: 'talker-9',
      contextWindow: 8192,
      maxOutput: 4096,
      billing,
    })
    for (const field of ['vendor', 'upstream', 'context_window', 'max_output'] as const) {
      const { [field]: _, ...lacking } = NEW
      expect(mistakes({ ...lacking, redirect: LARGE })).toEqual([
        `chat ${NEW.id}.id: not in the built-in catalog, so ${field} is required`,
      ])
    }
    const { input: _in, output: _out, ...unpriced } = NEW
    expect(mistakes(unpriced)).toEqual([
      `chat ${NEW.id}.id: not in the built-in catalog, so a price (input and output, flat, or free) is required`,
    ])
  })

  test('names the row and the field of every mistake', () => {
    const wrong: readonly [Omit<ChatOverride, 'id'>, string][] = [
      [{ input: 'cheap' }, 'input'],
      [{ output: '-1' }, 'output'],
      [{ cache_read: '1e3' }, 'cache_read'],
      [{ cache_write: '' }, 'cache_write'],
      [{ long: { from: 0, input: '1', output: '1' } }, 'long.from'],
      [{ long: { from: 5, input: 'x', output: '1' } }, 'long.input'],
      [{ long: { from: 5, input: '1', output: 'x' } }, 'long.output'],
      [{ flat: 'x' }, 'flat'],
      [{ flat: '0.001', input: '1' }, 'flat'],
      [{ flat: '0.001', free: true }, 'flat'],
      [{ free: true, output: '1' }, 'free'],
      [{ context_window: 0 }, 'context_window'],
      [{ max_output: 1.5 }, 'max_output'],
      [{ max_output: 2_000_000 }, 'max_output'],
      [{ live_search: 'x' }, 'live_search'],
      [{ live_search: '0.1', free: true }, 'live_search'],
      [{ fallbacks: ['nobody'] }, 'fallbacks'],
      [{ redirect: 'nobody' }, 'redirect'],
    ]
    for (const [words, field] of wrong) {
      const mistakesOf = mistakes({ id: LARGE, ...words })
      expect([field, mistakesOf[0]]).toEqual([field, expect.stringContaining(`chat ${LARGE}.${field}: `)])
    }
    expect(mistakes({ id: 'vendor-open/qwen3-32b', input: '1' })).toEqual([
      'chat vendor-open/qwen3-32b.input: input and output are both required, because the row has no rates',
    ])
    expect(mistakes({ id: 'farebox/echo-free', free: false })).toEqual([
      'chat farebox/echo-free.free: a row that is not free needs a price: input and output, or flat',
    ])
    expect(mistakes({ id: LARGE, hidden: true }, { id: LARGE, name: 'x' })).toContain(
      `chat: two entries change ${LARGE}`,
    )
    expect(mistakes({ id: LARGE, aliases: ['gpt-6-luna'] })).toEqual(['chat: two rows are called gpt-6-luna'])
  })
})

describe('a fallback', () => {
  const mistakesOf = (id: string, fallback: string, ...more: readonly ChatOverride[]) =>
    mistakes(...more, { id, fallbacks: [fallback] })

  test('exists, is another row, and costs no more, long or short', () => {
    expect(mistakesOf(FLAGSHIP, SMALL)).toEqual([])
    expect(mistakesOf(SMALL, FLAGSHIP)).toEqual([`chat ${SMALL}.fallbacks: ${FLAGSHIP} costs more`])
    expect(mistakesOf(SMALL, SMALL)).toEqual([`chat ${SMALL}.fallbacks: ${SMALL} is not another row`])
    const cheapThenDear = { ...NEW, long: { from: 1000, input: '100', output: '100' } }
    expect(mistakesOf(FLAGSHIP, NEW.id, cheapThenDear)).toEqual([`chat ${FLAGSHIP}.fallbacks: ${NEW.id} costs more`])
    expect(mistakesOf('vendor-c/chat-4.3', 'vendor-h/chat-4')).toEqual([])
  })

  test('costs more if its quote grows with the effort, or if its search costs more', () => {
    expect(mistakesOf('vendor-g/chat-5.5-large', LARGE)).toEqual([
      `chat vendor-g/chat-5.5-large.fallbacks: ${LARGE} costs more`,
    ])
    expect(mistakesOf(LARGE, NEW.id, NEW)).toEqual([])
    expect(mistakesOf('vendor-c/chat-4.3', 'vendor-c/chat-4.20-reasoning')).toEqual([
      'chat vendor-c/chat-4.3.fallbacks: vendor-c/chat-4.20-reasoning costs more',
    ])
  })

  test('of a paid or flat row is never free, and of a free row always', () => {
    const why = 'is free, and a paid call is never served by a free model'
    expect(mistakesOf(SMALL, 'farebox/echo-free')).toEqual([`chat ${SMALL}.fallbacks: farebox/echo-free ${why}`])
    expect(mistakesOf('vendor-open/qwen3-32b', 'vendor-open/gpt-oss-20b')).toEqual([
      `chat vendor-open/qwen3-32b.fallbacks: vendor-open/gpt-oss-20b ${why}`,
    ])
    expect(mistakesOf('farebox/echo-free', 'vendor-open/qwen3-32b')).toHaveLength(1)
    expect(mistakesOf('farebox/echo-free', 'vendor-open/gpt-oss-20b')).toEqual([])
  })

  test('of a flat row is flat and no dearer; of a paid row it may be flat up to the least that a paid call costs', () => {
    expect(mistakesOf('vendor-open/qwen3-235b', 'vendor-open/qwen3-32b')).toEqual([])
    expect(mistakesOf('vendor-open/qwen3-32b', 'vendor-open/qwen3-235b')).toHaveLength(1)
    expect(mistakesOf('vendor-open/qwen3-32b', 'farebox/echo')).toHaveLength(1)
    expect(mistakesOf('farebox/echo', 'vendor-open/qwen3-235b')).toEqual([])
    expect(
      mistakesOf('farebox/echo', 'vendor-open/qwen3-235b', { id: 'vendor-open/qwen3-235b', flat: '0.002001' }),
    ).toHaveLength(1)
  })

  test('of the catalog that no longer fits is left out silently', () => {
    const { fallbacks } = row('vendor-open/gpt-oss-120b', { id: 'vendor-open/gpt-oss-20b', flat: '0.001' })
    expect(fallbacks).toHaveLength(4)
    expect(row('vendor-open/gpt-oss-20b', { id: 'vendor-open/gpt-oss-20b', flat: '0.001' }).fallbacks).toEqual([])
  })
})

describe('a redirected chat row', () => {
  test('keeps what it is called, and is priced and served as the other (contract 8.8)', () => {
    const [from, to] = [known('vendor-a/chat-5.4'), known('vendor-a/chat-5.4-mini')]
    const { id, aliases, name, description, maker, created } = from
    expect(row(id, { id, redirect: to.id })).toEqual({
      ...to,
      id,
      aliases,
      name,
      description,
      maker,
      created,
      servedBy: to.id,
    })
  })

  test('promises no more tokens and no more surfaces than both have', () => {
    const made = row('vendor-a/chat-6-flagship', { id: FLAGSHIP, redirect: 'vendor-g/chat-4.5-small' })
    expect([made.contextWindow, made.maxOutput, made.surfaces, made.effort, made.refuses]).toEqual([
      200_000,
      64_000,
      undefined,
      undefined,
      undefined,
    ])
    expect(made.vendor).toBe('vendor-g')
  })

  test('is a mistake to a dearer row, to a free one, to itself, or to one that is redirected too (contract 8.8)', () => {
    expect(mistakes({ id: SMALL, redirect: FLAGSHIP })).toEqual([`chat ${SMALL}.redirect: ${FLAGSHIP} costs more`])
    expect(mistakes({ id: SMALL, redirect: 'vendor-open/gpt-oss-20b' })).toHaveLength(1)
    expect(mistakes({ id: SMALL, redirect: SMALL })).toEqual([`chat ${SMALL}.redirect: no other row is named ${SMALL}`])
    expect(mistakes({ id: FLAGSHIP, redirect: LARGE }, { id: LARGE, redirect: SMALL })).toEqual([
      `chat ${FLAGSHIP}.redirect: ${LARGE} is redirected itself; name the row that does the work`,
    ])
  })
})
