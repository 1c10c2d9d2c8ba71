import { describe, expect, test } from 'bun:test'
import { PIXEL, scriptedVendor } from '../../../fakes/images.ts'
import { catalog, ApiError, imageRows, rateLimited } from '../../../../core/mod.ts'
import {
  type Answer,
  decodeHeader,
  encodePayment,
  FOX,
  GENERATIONS,
  type Kit,
  kit,
  ORIGIN,
  read,
  START,
  slowVendor,
} from '../../../kit.ts'
import { dataUri, jpeg, pictures, png } from '../../../samples.ts'
import vectors from '../../../vectors/pricing.json'

const EDIT = '/api/v1/images/image2image'
const at = { path: EDIT }
const SNOW = { prompt: 'make it snow', image: PIXEL }
const EDITORS = [
  'vendor-a/image-1',
  'vendor-a/image-2',
  'vendor-b/image-flash',
  'vendor-b/image-flash-2',
  'vendor-b/image-pro',
]
const SOURCE = dataUri(png({ width: 6, height: 4 }))
const copies = (count: number) => Array.from({ length: count }, () => PIXEL)

const ask = (body: unknown, subject = kit()) => subject.buyer().ask(body, at)
const buy = (body: unknown, subject = kit()) => subject.buyer().buy(body, at)

/** A form with these fields, in order. */
function form(...fields: readonly (readonly [string, string | File])[]): FormData {
  const made = new FormData()
  for (const [name, value] of fields) made.append(name, value)
  return made
}

const file = (bytes: Uint8Array, type = 'image/png') => new File([bytes as BlobPart], 'source', { type })
const PROMPT = ['prompt', SNOW.prompt] as const

async function send({ gateway }: Kit, body: BodyInit | null, headers: Record<string, string> = {}): Promise<Answer> {
  return await read(await gateway.fetch(new Request(ORIGIN + EDIT, { method: 'POST', body, headers })))
}

/** Asks, signs and pays with the same form, and answers with the vendor's job as well. */
async function order(make: () => FormData) {
  const subject = kit()
  const payment = subject.buyer().sign(await send(subject, make()))
  const answer = await send(subject, make(), { 'payment-signature': encodePayment(payment) })
  return { answer, job: subject.vendor.jobs[0] as Record<string, unknown> | undefined }
}

/** A free 400: no challenge, nothing asked of the vendor. Answers with its body. */
async function refused(body: unknown): Promise<any> {
  const subject = kit()
  const answer = body instanceof FormData ? await send(subject, body) : await ask(body, subject)
  expect([answer.status, answer.headers.get('payment-required'), subject.vendor.jobs]).toEqual([400, null, []])
  return answer.body
}

describe('the challenge', () => {
  test('says what the contract says, and has no generation_info (contract 5.29, 5.30)', async () => {
    const {
      status,
      body: { extensions, ...body },
    } = await ask({ ...SNOW, n: 2 }, kit({ label: 'base' }))
    expect([status, Object.keys(extensions)]).toEqual([402, ['payment-identifier', 'bazaar']])
    expect(body).toEqual({
      x402Version: 2,
      accepts: [expect.objectContaining({ scheme: 'exact', amount: '127000', maxTimeoutSeconds: 600 })],
      type: 'https://paymentauth.org/problems/payment-required',
      title: 'Payment Required',
      status: 402,
      detail: expect.any(String),
      error: 'Payment Required',
      message: expect.stringContaining('0.127000 USDC'),
      price: {
        amount: '0.127000',
        currency: 'USD',
        pricePerImage: 0.06,
        totalImages: 2,
        marginPercent: 5,
        transactionFee: 0.001,
      },
      paymentInfo: { network: 'base', asset: 'USDC', x402Version: 2 },
      help: { header: 'PAYMENT-SIGNATURE', docs: `${ORIGIN}/docs`, llms: `${ORIGIN}/llms-full.txt` },
    })
  })

  test('quotes what generation quotes, for every editing model, size and count (contract 5.31)', async () => {
    const subject = kit()
    const editing = vectors.filter(({ model }) => EDITORS.includes(model))
    expect(new Set(editing.map(({ model }) => model)).size).toBe(EDITORS.length)
    for (const { model, size, billed } of editing) {
      for (const [n, amount] of Object.entries(billed)) {
        const order = { model, size, n: Number(n) }
        const edit = await ask({ ...SNOW, ...order }, subject)
        const generation = await subject.buyer().ask({ ...FOX, ...order })
        expect([order, edit.body.price]).toEqual([order, { ...generation.body.price, amount }])
      }
    }
  })

  test('does not cost more for more sources or a mask (contract 5.35)', async () => {
    const one = await ask(SNOW)
    for (const body of [
      { ...SNOW, image: copies(4) },
      { ...SNOW, mask: PIXEL },
    ])
      expect((await ask(body)).body.price).toEqual(one.body.price)
  })

  test('answers an empty POST and GET at the price of the default model', async () => {
    const subject = kit()
    const quoted = [
      await send(subject, null),
      await send(subject, ''),
      await send(subject, null, { 'content-type': 'multipart/form-data; boundary=x' }),
    ]
    quoted.push(await read(await subject.gateway.fetch(new Request(ORIGIN + EDIT))))
    expect(quoted.map(({ status, body }) => [status, body.price.amount])).toEqual(Array(4).fill([402, '0.064000']))
  })

  test('without a body quotes the first model that can edit here, where the default cannot', async () => {
    const vendor = scriptedVendor()
    const { edit: _, ...painter } = vendor
    const vendors = (editing: string) => ({
      images: (row: { vendor: string }) => (row.vendor === editing ? vendor : painter),
      media: () => Promise.reject(),
    })
    const { status, body } = await send(kit({ ports: { vendors: vendors('vendor-b') } }), null)
    expect([status, body.price.amount]).toEqual([402, '0.053500'])
    expect((await send(kit({ ports: { vendors: vendors('nobody') } }), null)).status).toBe(503)
  })

  test('is 503 for a vendor that cannot edit, or is not configured', async () => {
    const { edit: _, ...painter } = scriptedVendor()
    for (const vendor of [painter, undefined]) {
      const { status, body, headers } = await ask(
        SNOW,
        kit({ ports: { vendors: { images: () => vendor, media: () => Promise.reject() } } }),
      )
      expect([status, body.error, headers.get('payment-required')]).toEqual([503, 'Not configured', null])
    }
  })
})

describe('the model', () => {
  test('is vendor-a/image-2 unless told (contract 5.32)', async () => {
    const subject = kit()
    expect((await buy(SNOW, subject)).status).toBe(200)
    const [row] = imageRows.filter(({ id }) => id === 'vendor-a/image-2')
    expect(subject.vendor.jobs).toEqual([
      { model: String(row?.upstream), prompt: SNOW.prompt, width: 1024, height: 1024, n: 1, images: [PIXEL] },
    ])
  })

  test('is one that edits: any other id is 400 and lists those that do (contract 5.32)', async () => {
    for (const model of [
      'vendor-c/image-1',
      'vendor-d/image-cv4',
      'vendor-e/image-pro',
      'nobody/nothing',
      'x'.repeat(200),
    ]) {
      const body = await refused({ ...SNOW, model })
      expect([body.error, body.available_models]).toEqual(['Invalid model', EDITORS])
      expect(body.message).toContain(EDITORS.join(', '))
    }
  })

  test('has its own sizes: another one is 400 and lists them', async () => {
    const body = await refused({ ...SNOW, model: 'vendor-b/image-flash', size: '2048x2048' })
    expect([body.error, body.valid_sizes]).toEqual(['Invalid size', ['1024x1024']])
  })
})

describe('fields', () => {
  test('n is an integer from 1 to 10, checked before the 402', async () => {
    for (const n of [0, 11, 1.5, '2', -1])
      expect((await refused({ ...SNOW, n })).details).toMatchObject([{ path: 'n' }])
    for (const n of [1, 10]) expect((await ask({ ...SNOW, n })).body.price.totalImages).toBe(n)
  })

  test('a prompt and an image are needed, and the prompt is not blank', async () => {
    const body = await refused({})
    expect([body.error, body.details.map(({ path }: { path: string }) => path)]).toEqual([
      'Invalid request body',
      ['prompt', 'image'],
    ])
    for (const prompt of ['', '  \n'])
      expect((await refused({ ...SNOW, prompt })).details).toMatchObject([{ path: 'prompt' }])
    for (const image of ['', [], [''], 5, {}])
      expect((await refused({ ...SNOW, image })).details).toMatchObject([{ path: 'image' }])
  })

  test('unknown ones are ignored', async () => {
    const { status, body } = await ask({ ...SNOW, quality: 'high', response_format: 'b64_json', user: {} })
    expect([status, body.price]).toEqual([402, (await ask(SNOW)).body.price])
  })

  test('malformed JSON is 400, and the wrong content type as well', async () => {
    expect((await send(kit(), '{"prompt"', { 'content-type': 'application/json' })).body.error).toBe('Invalid JSON')
    expect((await send(kit(), 'prompt=x', { 'content-type': 'application/x-www-form-urlencoded' })).body.error).toBe(
      'Invalid content type',
    )
  })
})

describe('source images', () => {
  test('of every accepted format are recognised by their content (contract 5.36)', async () => {
    for (const [type, bytes] of Object.entries(pictures)) {
      const image = dataUri(bytes, type)
      const subject = kit()
      expect([type, (await buy({ ...SNOW, image, model: 'vendor-b/image-flash' }, subject)).status]).toEqual([
        type,
        200,
      ])
      expect(subject.vendor.jobs).toMatchObject([{ images: [image] }])
    }
  })

  test('go by their bytes, not by their declared type', async () => {
    for (const bytes of Object.values(pictures))
      expect((await ask({ ...SNOW, image: dataUri(bytes, 'image/tiff') })).status).toBe(402)
    const { details } = await refused({
      ...SNOW,
      image: dataUri(new TextEncoder().encode('<svg width="1" height="1"/>'), 'image/png'),
    })
    expect(details[0].message).toContain('does not decode to a recognizable image')
  })

  test('that are garbage in a valid data URI are 400 with the reason (contract 5.36, 5.37, 5.39)', async () => {
    const garbage = dataUri(new Uint8Array(64).fill(7))
    const body = await refused({ ...SNOW, image: garbage })
    expect(body).toMatchObject({
      error: 'Invalid request body',
      details: [{ path: 'image', message: expect.stringContaining('does not decode to a recognizable image') }],
    })
    expect((await refused({ ...SNOW, image: [PIXEL, garbage] })).details[0].path).toBe('image.1')
    expect((await refused({ ...SNOW, mask: garbage })).details[0].path).toBe('mask')
  })

  test('start with data:image/ (contract 5.36)', async () => {
    for (const image of ['https://example.com/fox.png', 'data:text/plain;base64,aGVsbG8=', PIXEL.slice(5)]) {
      expect((await refused({ ...SNOW, image })).details[0].message).toContain('data:image/')
    }
  })

  test('may be as many as the model fuses; one more is 400 and states the maximum (contract 5.31, 5.34)', async () => {
    for (const [model, most] of [
      ['vendor-a/image-1', 4],
      ['vendor-a/image-2', 4],
      ['vendor-b/image-flash', 3],
      ['vendor-b/image-flash-2', 3],
      ['vendor-b/image-pro', 3],
    ] as const) {
      const subject = kit()
      expect((await buy({ ...SNOW, model, image: copies(most) }, subject)).status).toBe(200)
      expect(subject.vendor.jobs).toMatchObject([{ images: copies(most) }])
      for (const count of [most + 1, 40]) {
        const { message, details } = await refused({ ...SNOW, model, image: copies(count) })
        expect([details[0].path, message]).toEqual([
          'image',
          expect.stringContaining(`${model} accepts at most ${most} source images, got ${count}`),
        ])
      }
    }
  })
})

test('a source image may be as large as what one request may hold (contract 5.41)', async () => {
  const large = new Uint8Array(Buffer.concat([png(), new Uint8Array(20 << 20)]))
  expect((await ask({ ...SNOW, image: dataUri(large) })).status).toBe(402)
  expect((await ask({ ...SNOW, image: dataUri(new Uint8Array(Buffer.concat([large, large]))) })).status).toBe(413)
})

describe('a mask', () => {
  const mask = dataUri(png({ width: 6, height: 4 }))

  test('goes to a vendor-a model with a single source', async () => {
    for (const model of ['vendor-a/image-1', 'vendor-a/image-2']) {
      const subject = kit()
      expect((await buy({ ...SNOW, model, image: SOURCE, mask }, subject)).status).toBe(200)
      expect(subject.vendor.jobs).toMatchObject([{ images: [SOURCE], mask }])
    }
  })

  test('with a list of one source is the same edit, in JSON as in a form (contract 5.51)', async () => {
    const subject = kit()
    expect((await buy({ ...SNOW, image: [SOURCE], mask }, subject)).status).toBe(200)
    expect(subject.vendor.jobs).toMatchObject([{ images: [SOURCE], mask }])
  })

  test('with several images is 400, with their number (contract 5.40)', async () => {
    expect((await refused({ ...SNOW, image: [SOURCE, SOURCE], mask })).details).toEqual([
      { path: 'mask', message: 'requires a single source image, got 2' },
    ])
  })

  test('to a vendor-b model is 400 before payment (contract 5.40)', async () => {
    for (const model of EDITORS.filter((id) => id.startsWith('vendor-b'))) {
      expect((await refused({ ...SNOW, model, image: SOURCE, mask })).details).toMatchObject([
        { path: 'mask', message: expect.stringContaining('vendor-a') },
      ])
    }
  })

  test('of other dimensions than its source is 400, and states both (contract 5.39)', async () => {
    const { message } = await refused({ ...SNOW, image: SOURCE, mask: dataUri(png({ width: 4, height: 6 })) })
    expect(message).toContain('6x4, got 4x6')
    expect((await ask({ ...SNOW, image: dataUri(jpeg({ width: 6, height: 4 })), mask })).status).toBe(402)
  })

  test('that is not a PNG is 400, whatever its declared type (contract 5.39)', async () => {
    for (const [type, bytes] of Object.entries(pictures)) {
      if (type === 'image/png') continue
      expect((await refused({ ...SNOW, image: SOURCE, mask: dataUri(bytes) })).message).toContain(
        `must be a PNG with an alpha channel, got ${type}`,
      )
    }
  })

  test('is checked like an image', async () => {
    for (const bad of ['https://example.com/mask.png', 'data:image/png;base64,%%%'])
      expect((await refused({ ...SNOW, mask: bad })).details[0].path).toBe('mask')
  })
})

describe('a multipart form', () => {
  test('orders what the same JSON would (contract 4.1, 5.33)', async () => {
    const source = png({ width: 6, height: 4 })
    const { answer, job } = await order(() =>
      form(
        PROMPT,
        ['model', 'vendor-a/image-1'],
        ['size', '1536x1024'],
        ['n', '2'],
        ['image', file(source)],
        ['mask', file(source)],
      ),
    )
    const subject = kit()
    await buy({ ...SNOW, model: 'vendor-a/image-1', size: '1536x1024', n: 2, image: SOURCE, mask: SOURCE }, subject)
    expect([answer.status, answer.body.price.amount, answer.body.data.length]).toEqual([200, '0.085000', 2])
    expect(job).toEqual(subject.vendor.jobs[0] as never)
  })

  test('repeats image[] for several sources, in order (contract 5.33)', async () => {
    const sources = ['image/heic', 'image/png', 'image/webp'].map(
      (type) => [type, pictures[type] ?? new Uint8Array()] as const,
    )
    const { answer, job } = await order(() =>
      form(PROMPT, ...sources.map(([type, bytes]) => ['image[]', file(bytes, type)] as const)),
    )
    expect([answer.status, job?.images]).toEqual([200, sources.map(([type, bytes]) => dataUri(bytes, type))])
  })

  test('calls a file what its bytes say, whatever its name and type say', async () => {
    for (const [type, bytes] of Object.entries(pictures)) {
      for (const [name, declared] of [
        ['fox.png', 'image/png'],
        ['fox.txt', 'image/jpeg'],
        ['fox', ''],
      ] as const) {
        const { job } = await order(() =>
          form(PROMPT, ['image', new File([bytes as BlobPart], name, { type: declared })]),
        )
        expect([type, name, job?.images]).toEqual([type, name, [dataUri(bytes, type)]])
      }
    }
  })

  test('takes one image[] for a single source, with a mask (contract 5.33)', async () => {
    const { answer, job } = await order(() => form(PROMPT, ['image[]', file(png())], ['mask', file(png())]))
    expect([answer.status, job?.images, job?.mask]).toEqual([200, [dataUri(png())], dataUri(png())])
    const { details } = await refused(
      form(PROMPT, ['image[]', file(png())], ['image[]', file(png())], ['mask', file(png())]),
    )
    expect(details).toMatchObject([{ path: 'mask' }])
  })

  test('takes a file without an image type for PNG (contract 5.33)', async () => {
    for (const type of ['', 'application/octet-stream', 'text/plain']) {
      const { job } = await order(() => form(PROMPT, ['image', file(png(), type)]))
      expect([type, job?.images]).toEqual([type, [dataUri(png())]])
    }
  })

  test('takes a data URI as text as well', async () => {
    const { answer, job } = await order(() => form(PROMPT, ['image', PIXEL]))
    expect([answer.status, job?.images]).toEqual([200, [PIXEL]])
  })

  test('encodes files on a runtime without toBase64', async () => {
    const native = Object.getOwnPropertyDescriptor(Uint8Array.prototype, 'toBase64')
    if (!native) throw new Error('this runtime has no toBase64')
    const large = new Uint8Array(Buffer.concat([png(), new Uint8Array(100_000).fill(9)]))
    Object.defineProperty(Uint8Array.prototype, 'toBase64', { configurable: true, value: undefined })
    try {
      const { job } = await order(() => form(PROMPT, ['image', file(large)]))
      expect(job?.images).toEqual([dataUri(large)])
    } finally {
      Object.defineProperty(Uint8Array.prototype, 'toBase64', native)
    }
  })

  test('reads n as a number, and names one that is none', async () => {
    for (const n of ['0', '11', '1.5', 'two', '', '-1'])
      expect([n, (await refused(form(PROMPT, ['image', file(png())], ['n', n]))).details[0].path]).toEqual([n, 'n'])
    expect((await refused(form(PROMPT, ['image', file(png())], ['n', file(png())]))).details).toMatchObject([
      { path: 'n' },
    ])
    const { body } = await send(kit(), form(PROMPT, ['image', file(png())], ['n', ' 3 ']))
    expect(body.price.totalImages).toBe(3)
  })

  test('without an image, or without anything, is 400 and names what is missing', async () => {
    const missing = async (made: FormData) => (await refused(made)).details.map(({ path }: { path: string }) => path)
    expect(await missing(form(PROMPT))).toEqual(['image'])
    expect(await missing(form(['image', file(png())]))).toEqual(['prompt'])
    expect(await missing(form())).toEqual(['prompt', 'image'])
    expect(await missing(form(PROMPT, ['image', file(png())], ['model', file(png())]))).toEqual(['model'])
  })

  test('whose file is not an image is 400', async () => {
    const { details } = await refused(form(PROMPT, ['image', file(new Uint8Array(20).fill(1))]))
    expect(details).toMatchObject([{ path: 'image', message: expect.stringContaining('recognizable image') }])
  })

  test('that is malformed is 400, with a payment as without', async () => {
    const subject = kit()
    const alice = subject.buyer()
    const payment = encodePayment(alice.sign(await alice.ask(SNOW, at)))
    const broken = [
      ['no form at all', 'multipart/form-data; boundary=x'],
      ['--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nhi', 'multipart/form-data; boundary=x'],
      ['--x--', 'multipart/form-data'],
      ['--x--', 'multipart/form-data; boundary='],
    ] as const
    for (const [body, type] of broken) {
      for (const paid of [{}, { 'x-payment': payment }] as const) {
        const answer = await send(subject, body, { 'content-type': type, ...paid })
        expect([body, answer.status, answer.body.error]).toEqual([body, 400, 'Invalid multipart form'])
      }
    }
    expect(
      (await send(subject, null, { 'content-type': 'multipart/form-data; boundary=x', 'x-payment': payment })).status,
    ).toBe(400)
    expect([subject.vendor.jobs, subject.chain.transfers]).toEqual([[], []])
  })

  test('with too many files is refused with the limit, before any file is read', async () => {
    const many = Array.from({ length: 60 }, () => ['image[]', file(new Uint8Array([1]))] as const)
    const { message } = await refused(form(PROMPT, ...many))
    expect(message).toContain('accepts at most 4 source images, got 60')
  })

  test('over 32 MiB is 413, declared or not; generation takes no form at all', async () => {
    const chunk = new Uint8Array(1 << 20)
    const stream = new ReadableStream<Uint8Array>({ pull: (it) => it.enqueue(chunk) }, { highWaterMark: 0 })
    const type = { 'content-type': 'multipart/form-data; boundary=x' }
    for (const answer of [
      await send(kit(), '--x--', { ...type, 'content-length': String((32 << 20) + 1) }),
      await send(kit(), stream, type),
    ]) {
      expect([answer.status, answer.body.error, answer.body.max_bytes]).toEqual([
        413,
        'Request body too large',
        32 << 20,
      ])
    }
    const answer = await read(
      await kit().gateway.fetch(new Request(ORIGIN + GENERATIONS, { method: 'POST', body: form(PROMPT) })),
    )
    expect([answer.status, answer.body.error]).toEqual([400, 'Invalid content type'])
  })

  test('is part of what a payment is bound to: another form with the same payment is a replay', async () => {
    const subject = kit()
    const make = (prompt: string) => form(['prompt', prompt], ['image', file(png())])
    const payment = encodePayment(subject.buyer().sign(await send(subject, make('snow'))))
    expect((await send(subject, make('snow'), { 'x-payment': payment })).status).toBe(200)
    expect((await send(subject, make('rain'), { 'x-payment': payment })).body.code).toBe('PAYMENT_REPLAY')
  })
})

describe('the fast path', () => {
  test('answers with the raw data URI, unmirrored, and settles exactly the quote', async () => {
    const subject = kit({ label: 'base' })
    const alice = subject.buyer()
    const { status, headers, body } = await alice.buy({ ...SNOW, n: 2 }, at)
    const [transfer] = subject.chain.transfers
    expect(status).toBe(200)
    expect(body).toEqual({
      id: expect.stringMatching(/^job_[0-9a-f]{32}$/),
      created: START / 1000,
      data: [{ url: PIXEL }, { url: PIXEL }],
      price: { amount: '0.127000', currency: 'USD' },
      payment: { status: 'settled', tx_hash: transfer?.transaction, network: 'base' },
    })
    expect(decodeHeader(headers.get('payment-response'))).toMatchObject({
      success: true,
      transaction: transfer?.transaction,
      payer: alice.wallet,
    })
    expect(headers.get('x-payment-receipt')).toBe(transfer?.transaction ?? '')
    expect(alice.balance()).toBe(100_000_000n - 127_000n)
  })

  test('shows a rewritten prompt beside its image', async () => {
    const vendor = scriptedVendor(async () => [{ url: PIXEL, revisedPrompt: 'deep snow' }, { url: PIXEL }])
    expect((await buy(SNOW, kit({ vendor }))).body.data).toEqual([
      { url: PIXEL, revised_prompt: 'deep snow' },
      { url: PIXEL },
    ])
  })

  test('is mirrored all the same, so that its poll serves hosted images (contract 5.42)', async () => {
    const subject = kit()
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(SNOW, at))
    const { body } = await alice.buy(SNOW, { ...at, payment })
    const poll = await alice.poll(await subject.keyed(body.id), payment)
    expect(poll.body).toEqual({
      ...body,
      payment: { ...body.payment, status: 'already_settled' },
      data: [
        {
          url: expect.stringMatching(/^http:\/\/farebox\.test\/api\/media\/images\//),
          source_url: 'data:image/png',
          backed_up: true,
        },
      ],
    })
    expect((await subject.gateway.fetch(new Request(poll.body.data[0].url))).status).toBe(200)
  })
})

describe('the slow path', () => {
  /** An edit whose inline window has passed, with a prompt that the vendor rewrites. */
  async function slowEdit() {
    const { vendor, ready } = slowVendor()
    const edit: typeof vendor.edit = async (...args) =>
      (await vendor.edit(...args)).map((image) => ({ ...image, revisedPrompt: 'deep snow' }))
    const subject = kit({ vendor: { ...vendor, edit } })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(SNOW, at))
    const answer = alice.buy(SNOW, { ...at, payment })
    await subject.streamed(30_000)
    return { ...subject, alice, payment, envelope: await answer, finish: () => (ready(), subject.idle()) }
  }

  test('is 202 after 30 seconds, with an envelope of an edit job under the poll path of generation (contract 5.43)', async () => {
    const { envelope, chain } = await slowEdit()
    expect(envelope.status).toBe(202)
    expect(envelope.body).toEqual({
      id: expect.stringMatching(/^job_/),
      object: 'image.edit.job',
      status: 'queued',
      model: 'vendor-a/image-2',
      size: '1024x1024',
      n: 1,
      price: { amount: '0.064000', currency: 'USD' },
      payment_status: 'verified',
      created: START / 1000,
      poll_url: expect.stringMatching(new RegExp(`^${GENERATIONS}/${envelope.body.id}\\?key=[0-9a-f]{32}$`)),
      poll_instructions: expect.any(String),
    })
    expect(chain.transfers).toEqual([])
  })

  test('is polled as an edit job, charged by the first poll that finds it ready, with hosted images (contract 5.2, 5.3, 5.43)', async () => {
    const { alice, payment, envelope, finish, chain } = await slowEdit()
    const { poll_url } = envelope.body
    const running = await alice.poll(poll_url, payment)
    expect([running.status, running.body]).toEqual([
      202,
      {
        id: envelope.body.id,
        object: 'image.edit.job',
        status: 'in_progress',
        model: 'vendor-a/image-2',
        payment_status: 'verified',
        note: expect.any(String),
      },
    ])
    await finish()
    const { status, body } = await alice.poll(poll_url, payment)
    expect([status, body.payment.status, body.price.amount]).toEqual([200, 'settled', '0.064000'])
    expect(body.data).toEqual([
      {
        url: expect.stringContaining('/api/media/images/'),
        source_url: 'data:image/png',
        backed_up: true,
        revised_prompt: 'deep snow',
      },
    ])
    expect((await alice.poll(poll_url, payment)).body.payment.status).toBe('already_settled')
    const alias = await alice.poll(poll_url.replace(GENERATIONS, '/api/v1/images/image2image'), payment)
    expect([alias.status, alias.body.payment.status]).toEqual([200, 'already_settled'])
    expect(chain.transfers).toHaveLength(1)
  })

  test('is always taken for a slow row', async () => {
    const rows = imageRows.map((row) => (row.id === 'vendor-a/image-2' ? { ...row, slow: true } : row))
    expect((await buy(SNOW, kit({ catalog: catalog({ images: rows }) }))).status).toBe(202)
  })

  test('ends as a failed edit job, uncharged', async () => {
    const subject = kit({ vendor: scriptedVendor(() => Promise.reject(new Error('no'))), inlineMs: 0 })
    const alice = subject.buyer()
    const payment = alice.sign(await alice.ask(SNOW, at))
    const { body } = await alice.buy(SNOW, { ...at, payment })
    await subject.idle()
    const poll = await alice.poll(body.poll_url, payment)
    expect([poll.status, poll.body.object, poll.body.status, poll.body.payment_status]).toEqual([
      200,
      'image.edit.job',
      'failed',
      'not_charged',
    ])
    expect(poll.body.error).toStartWith('Image editing failed')
  })
})

describe('a failure of the work', () => {
  const failing = (error: unknown) => kit({ vendor: scriptedVendor(() => Promise.reject(error)) })

  test('is 500 Image editing failed, with job_id and details (contract 5.48)', async () => {
    const subject = failing(new Error('key sk-123 was refused'))
    const { status, body } = await buy(SNOW, subject)
    expect([status, body]).toEqual([
      500,
      { error: 'Image editing failed', job_id: expect.stringMatching(/^job_/), details: expect.any(String) },
    ])
    expect(JSON.stringify(body)).not.toContain('sk-123')
    expect(subject.chain.transfers).toEqual([])
  })

  test('by a rate limit is 429 with error and details only, and the headers of generation (contract 5.47)', async () => {
    const subject = failing(rateLimited('vendor-a', 7))
    const { status, headers, body } = await buy(SNOW, subject)
    expect([status, body]).toEqual([429, { error: 'Rate limit exceeded', details: expect.any(String) }])
    expect([headers.get('retry-after'), headers.get('x-ratelimit-source')]).toEqual(['7', 'vendor-a'])
    expect(subject.chain.transfers).toEqual([])
    expect((await buy(SNOW, failing(new ApiError('RATE_LIMITED')))).body).toEqual({
      error: 'Rate limit exceeded',
      details: null,
    })
  })

  test('a vendor that is full is 429 before a call is opened, and the same payment is good later (contract 5.52)', async () => {
    let isFull = true
    const subject = kit({ vendor: { ...scriptedVendor(), isFull: () => isFull } })
    for (const [body, path, codes] of [
      [SNOW, EDIT, {}],
      [FOX, GENERATIONS, { code: 'RATE_LIMITED', source: 'vendor-a', retry_after_seconds: 10 }],
    ] as const) {
      isFull = true
      const buyer = subject.buyer()
      const payment = buyer.sign(await buyer.ask(body, { path }))
      const sent = () => buyer.buy(body, { path, payment })
      const full = await sent()
      expect([full.status, full.body]).toEqual([
        429,
        { error: 'Rate limit exceeded', details: 'The model is at capacity. Nothing was charged.', ...codes },
      ])
      expect(full.headers.get('retry-after')).toBe('10')
      isFull = false
      expect((await sent()).status).toBe(200)
      isFull = true
      expect((await sent()).body.code).toBe('PAYMENT_REPLAY')
    }
  })

  test('by an upstream timeout is 504 Image editing timed out (contract 5.49)', async () => {
    const subject = failing(new ApiError('UPSTREAM_TIMEOUT', { details: 'The model did not answer in time.' }))
    const { status, body } = await buy(SNOW, subject)
    expect([status, body, subject.chain.transfers.length]).toEqual([
      504,
      { error: 'Image editing timed out', details: 'The model did not answer in time.' },
      0,
    ])
  })

  test('caused by the buyer is 400, uncharged: a refused file, or the content policy (contract 5.38, 5.46)', async () => {
    for (const [code, error] of [
      ['INVALID_IMAGE', 'Invalid input image'],
      ['CONTENT_POLICY', 'Content policy violation'],
    ] as const) {
      const subject = failing(new ApiError(code, { details: 'The model says no.' }))
      const { status, body } = await buy(SNOW, subject)
      expect([status, body, subject.chain.transfers.length]).toEqual([400, { error, details: 'The model says no.' }, 0])
    }
  })

  test('is a vendor that went away between quote and work', async () => {
    const vendor = scriptedVendor()
    let requestCount = 0
    const images = () => (requestCount++ < 2 ? vendor : undefined)
    const { status, body } = await buy(SNOW, kit({ ports: { vendors: { images, media: () => Promise.reject() } } }))
    expect([status, body.error]).toEqual([503, 'Not configured'])
  })
})
