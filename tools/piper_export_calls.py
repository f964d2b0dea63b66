"""The calls of ATen that piperc has rows for, with the names of their arguments, and the operators of ONNX. Written by tools/generate_export_calls.py."""
_TARGETS = {    # by the names of their arguments
    "A": """
        aten._linalg_det.default aten._linalg_slogdet.default aten.det.default aten.inverse.default aten.linalg_det.default
        aten.linalg_inv.default aten.linalg_slogdet.default aten.logdet.default aten.slogdet.default
    """,
    "A B left": "aten.linalg_solve.default",
    "A B left check_errors": "aten._linalg_solve_ex.default aten.linalg_solve_ex.default",
    "A UPLO compute_v": "aten._linalg_eigh.default",
    "A check_errors": "aten.linalg_inv_ex.default",
    "A driver": "aten.linalg_svdvals.default",
    "A full_matrices compute_uv driver": "aten._linalg_svd.default",
    "A full_matrices driver": "aten.linalg_svd.default",
    "A mode": "aten.linalg_qr.default",
    "A pivot": "aten.linalg_lu.default aten.linalg_lu_factor.default",
    "A pivot check_errors": "aten.linalg_lu_factor_ex.default",
    "LU pivots B left adjoint": "aten.linalg_lu_solve.default",
    "LU_data LU_pivots unpack_data unpack_pivots": "aten.lu_unpack.default",
    "a": "operator.neg sym_float sym_int sym_not",
    "a b": """
        operator.add operator.eq operator.floordiv operator.ge operator.gt operator.le operator.lt operator.mod operator.mul operator.ne
        operator.pow operator.sub operator.truediv sym_max sym_min
    """,
    "abs angle": "aten.polar.default",
    "anchor positive negative margin p eps swap reduction": "aten.triplet_margin_loss.default",
    "condition self other": "aten.where.Scalar aten.where.ScalarOther aten.where.ScalarSelf aten.where.self",
    "end dtype": "aten.arange.default",
    "equation tensors path": "aten.einsum.default",
    "fill_value dtype": "aten.scalar_tensor.default",
    "high size dtype": "aten.randint.default",
    "input hx params has_biases num_layers dropout train bidirectional batch_first": """
        aten.gru.input aten.lstm.input aten.rnn_relu.input aten.rnn_tanh.input
    """,
    "input hx w_ih w_hh b_ih b_hh": "aten.gru_cell.default aten.lstm_cell.default aten.rnn_relu_cell.default aten.rnn_tanh_cell.default",
    "input linear_weight target linear_bias weight ignore_index batch_chunk_size acc_policy acc_dtype": """
        torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default
    """,
    "input linear_weight target linear_bias weight reduction ignore_index label_smoothing batch_chunk_size acc_policy acc_dtype allow_retain_graph compute_input_grad compute_linear_weight_grad compute_linear_bias_grad": """
        torch_nn._linear_cross_entropy_batch_chunked.default
    """,
    "input normalized_shape weight bias eps": "aten.native_layer_norm.default",
    "input normalized_shape weight bias eps cudnn_enable": "aten.layer_norm.default",
    "input normalized_shape weight eps": "aten._fused_rms_norm.default aten.rms_norm.default",
    "input num_groups weight bias eps cudnn_enabled": "aten.group_norm.default",
    "input output_size align_corners scale_factors": "aten._upsample_bicubic2d_aa.vec aten._upsample_bilinear2d_aa.vec",
    "input p train": """
        aten.alpha_dropout.default aten.dropout.default aten.feature_alpha_dropout.default aten.feature_dropout.default
        aten.native_dropout.default
    """,
    "input target log_input full eps reduction": "aten.poisson_nll_loss.default",
    "input tau": "aten.linalg_householder_product.default",
    "input weight bias": "aten.linear.default",
    "input weight bias N C HxW num_groups eps": "aten.native_group_norm.default",
    "input weight bias running_mean running_var momentum eps": """
        aten._batch_norm_with_update.default aten._native_batch_norm_legit_no_training.default
    """,
    "input weight bias running_mean running_var training momentum eps": """
        aten._native_batch_norm_legit.default aten._native_batch_norm_legit_functional.default aten.native_batch_norm.default
    """,
    "input weight bias running_mean running_var training momentum eps cudnn_enabled": "aten.batch_norm.default",
    "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled": "aten.instance_norm.default",
    "input weight bias stride padding dilation groups": """
        aten.conv1d.default aten.conv1d.padding aten.conv2d.default aten.conv2d.padding aten.conv3d.default aten.conv3d.padding
    """,
    "input weight bias stride padding dilation transposed output_padding groups": "aten.convolution.default",
    "input weight bias stride padding dilation transposed output_padding groups benchmark deterministic cudnn_enabled allow_tf32": """
        aten._convolution.default
    """,
    "input weight bias stride padding output_padding groups dilation": """
        aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input
    """,
    "input weight bias training momentum eps": "aten._native_batch_norm_legit.no_stats",
    "input weight offs": "transformers.grouped_mm_fallback.default",
    "input1 input2 target margin reduction": "aten.cosine_embedding_loss.default aten.margin_ranking_loss.default",
    "input1 input2 weight bias": "aten.bilinear.default",
    "low high size dtype": "aten.randint.low",
    "n dtype": "aten.eye.default aten.randperm.default",
    "n m dtype": "aten.eye.m",
    "n self": "aten.polygamma.default",
    "query key value attn_mask dropout_p is_causal scale enable_gqa": "aten.scaled_dot_product_attention.default",
    "real imag": "aten.complex.default",
    "repeats output_size": "aten.repeat_interleave.Tensor",
    "self": """
        aten._conj.default aten._conj_physical.default aten._local_scalar_dense.default aten.abs.default aten.absolute.default
        aten.acos.default aten.acosh.default aten.alias.default aten.all.default aten.angle.default aten.any.default aten.asin.default
        aten.asinh.default aten.atan.default aten.atanh.default aten.bernoulli.default aten.bitwise_not.default aten.ceil.default
        aten.clone.default aten.conj.default aten.conj_physical.default aten.contiguous.default aten.cos.default aten.cosh.default
        aten.deg2rad.default aten.detach.default aten.detach_.default aten.digamma.default aten.erf.default aten.erfc.default
        aten.erfinv.default aten.exp.default aten.exp2.default aten.expm1.default aten.floor.default aten.frac.default
        aten.hardsigmoid.default aten.hardswish.default aten.i0.default aten.imag.default aten.isinf.default aten.isnan.default
        aten.isneginf.default aten.isposinf.default aten.item.default aten.lgamma.default aten.lift_fresh.default
        aten.lift_fresh_copy.default aten.linalg_matrix_exp.default aten.log.default aten.log10.default aten.log1p.default aten.log2.default
        aten.log_sigmoid.default aten.log_sigmoid_forward.default aten.logical_not.default aten.mT.default aten.matrix_exp.default
        aten.max.default aten.median.default aten.min.default aten.mish.default aten.nanmedian.default aten.neg.default
        aten.negative.default aten.nonzero.default aten.nonzero_numpy.default aten.numpy_T.default aten.poisson.default aten.rad2deg.default
        aten.ravel.default aten.real.default aten.reciprocal.default aten.relu.default aten.relu6.default aten.resolve_conj.default
        aten.resolve_neg.default aten.round.default aten.rsqrt.default aten.selu.default aten.sgn.default aten.sigmoid.default
        aten.sign.default aten.signbit.default aten.silu.default aten.sin.default aten.sinc.default aten.sinh.default
        aten.special_entr.default aten.special_erfcx.default aten.special_i0e.default aten.special_i1.default aten.special_i1e.default
        aten.special_log_ndtr.default aten.special_logit.default aten.special_ndtr.default aten.special_ndtri.default aten.sqrt.default
        aten.square.default aten.squeeze.default aten.sym_numel.default aten.t.default aten.tan.default aten.tanh.default aten.trunc.default
        aten.view_as_complex.default aten.view_as_real.default
    """,
    "self A upper transpose unitriangular": "aten.triangular_solve.default",
    "self B upper left unitriangular": "aten.linalg_solve_triangular.default",
    "self LU_data LU_pivots": "aten.lu_solve.default",
    "self UPLO": "aten.linalg_eigh.default aten.linalg_eigvalsh.default",
    "self alpha": "aten.celu.default",
    "self alpha scale input_scale": "aten.elu.default",
    "self approximate": "aten.gelu.default",
    "self atol rtol hermitian": "aten.linalg_pinv.atol_rtol_float aten.linalg_pinv.atol_rtol_tensor",
    "self batch1 batch2 beta alpha": "aten.addbmm.default",
    "self beta threshold": "aten.softplus.default",
    "self bins min max": "aten.histc.default",
    "self chunks dim": "aten.chunk.default aten.unsafe_chunk.default",
    "self decimals": "aten.round.decimals",
    "self device dtype non_blocking copy memory_format": "aten.to.device",
    "self diagonal": "aten.diag.default aten.tril.default aten.triu.default",
    "self dim": """
        aten.glu.default aten.logcumsumexp.default aten.squeeze.dim aten.squeeze.dims aten.sym_size.int aten.unbind.int
        aten.unsqueeze.default prims.squeeze.default
    """,
    "self dim correction keepdim": """
        aten.std.correction aten.std_mean.correction aten.var.correction aten.var_mean.correction prims.var.default
    """,
    "self dim descending": "aten.argsort.default aten.sort.default",
    "self dim dtype": "aten._safe_softmax.default aten.cumprod.default aten.cumsum.default aten.log_softmax.int aten.softmax.int",
    "self dim half_to_float": "aten._log_softmax.default aten._softmax.default",
    "self dim index": "aten.index_select.default aten.select.int",
    "self dim index source alpha": "aten.index_add.default",
    "self dim index sparse_grad": "aten.gather.default",
    "self dim index src": "aten.scatter.src aten.scatter.value aten.scatter_add.default",
    "self dim keepdim": """
        aten.all.dim aten.amax.default aten.amin.default aten.any.dim aten.argmax.default aten.argmin.default aten.logsumexp.default
        aten.max.dim aten.median.dim aten.min.dim aten.mode.default aten.nanmedian.dim
    """,
    "self dim keepdim dtype": "aten.mean.dim aten.prod.dim_int aten.sum.dim_IntList",
    "self dim normalization forward": "aten._fft_c2c.default",
    "self dim normalization last_dim_size": "aten._fft_c2r.default",
    "self dim normalization onesided": "aten._fft_r2c.default",
    "self dim sizes": "aten.unflatten.int",
    "self dim start end step": "aten.slice.Tensor",
    "self dim start length": "aten.narrow.default",
    "self dim unbiased keepdim": "aten.std.dim aten.std_mean.dim aten.var.dim aten.var_mean.dim",
    "self dim0 dim1": "aten.swapaxes.default aten.swapdims.default aten.transpose.int",
    "self dimension size step": "aten.unfold.default",
    "self dims": "aten.flip.default aten.permute.default",
    "self downscale_factor": "aten.pixel_unshuffle.default",
    "self dtype": """
        aten._to_copy.default aten.empty_like.default aten.mean.default aten.ones_like.default aten.prod.default aten.rand_like.default
        aten.randn_like.default aten.sum.default aten.to.dtype_layout aten.zeros_like.default prims.convert_element_type.default
    """,
    "self dtype non_blocking copy memory_format": "aten.to.dtype",
    "self end weight": "aten.lerp.Scalar aten.lerp.Tensor",
    "self eps": "aten.logit.default",
    "self exponent": """
        aten.float_power.Scalar aten.float_power.Tensor_Scalar aten.float_power.Tensor_Tensor aten.pow.Scalar aten.pow.Tensor_Scalar
        aten.pow.Tensor_Tensor
    """,
    "self fill_value dtype": "aten.full_like.default",
    "self groups": "aten.channel_shuffle.default aten.native_channel_shuffle.default",
    "self high dtype": "aten.randint_like.default",
    "self ind": "aten.linalg_tensorinv.default",
    "self index": "operator.getitem",
    "self indices": "aten.index.Tensor",
    "self indices dim": "aten.tensor_split.indices",
    "self indices values accumulate": "aten.index_put.default",
    "self input2": "aten.orgqr.default",
    "self input2 input3 left transpose": "aten.ormqr.default",
    "self input2 upper": "aten.cholesky_solve.default",
    "self k dim keepdim": "aten.kthvalue.default",
    "self k dim largest sorted": "aten.topk.default",
    "self kernel_size dilation padding stride": "aten.im2col.default",
    "self kernel_size stride padding ceil_mode count_include_pad": "aten.avg_pool1d.default",
    "self kernel_size stride padding ceil_mode count_include_pad divisor_override": "aten.avg_pool2d.default aten.avg_pool3d.default",
    "self kernel_size stride padding dilation ceil_mode": """
        aten.max_pool1d.default aten.max_pool2d.default aten.max_pool2d_with_indices.default
    """,
    "self lambd": "aten.exponential.default aten.hardshrink.default aten.softshrink.default",
    "self lower upper training": "aten.rrelu.default",
    "self mask": "aten.masked_select.default",
    "self mask value": "aten.masked_fill.Scalar aten.masked_fill.Tensor",
    "self mat1 mat2 beta alpha": "aten.addmm.default aten.baddbmm.default",
    "self mat2 offs bias out_dtype": "aten._grouped_mm.default",
    "self max": "aten.clamp_max.Tensor",
    "self max min": "aten.clamp_max.default",
    "self min": "aten.clamp_min.Tensor",
    "self min max": "aten.clamp.Tensor aten.clamp.default aten.clamp_min.default aten.clip.default",
    "self min_val max_val": "aten.hardtanh.default",
    "self n": "aten.linalg_matrix_power.default aten.matrix_power.default",
    "self n dim norm": """
        aten.fft_fft.default aten.fft_hfft.default aten.fft_ifft.default aten.fft_ihfft.default aten.fft_irfft.default aten.fft_rfft.default
    """,
    "self n dim prepend append": "aten.diff.default",
    "self n_fft hop_length win_length window normalized onesided return_complex align_to_window": "aten.stft.default",
    "self nan posinf neginf": "aten.nan_to_num.default",
    "self negative_slope": "aten.leaky_relu.default",
    "self num_classes": "aten.one_hot.default",
    "self num_samples replacement": "aten.multinomial.default",
    "self offset dim1 dim2": "aten.diagonal_copy.default",
    "self ord dim keepdim dtype": "aten.linalg_vector_norm.default",
    "self other": """
        aten.__and__.Scalar aten.__and__.Tensor aten.__lshift__.Scalar aten.__lshift__.Tensor aten.__or__.Scalar aten.__or__.Tensor
        aten.__rshift__.Scalar aten.__rshift__.Tensor aten.__xor__.Scalar aten.__xor__.Tensor aten.atan2.default aten.bitwise_and.Scalar
        aten.bitwise_and.Tensor aten.bitwise_left_shift.Scalar_Tensor aten.bitwise_left_shift.Tensor aten.bitwise_left_shift.Tensor_Scalar
        aten.bitwise_or.Scalar aten.bitwise_or.Tensor aten.bitwise_right_shift.Scalar_Tensor aten.bitwise_right_shift.Tensor
        aten.bitwise_right_shift.Tensor_Scalar aten.bitwise_xor.Scalar aten.bitwise_xor.Tensor aten.bmm.default aten.copysign.Scalar
        aten.copysign.Tensor aten.div.Scalar aten.div.Tensor aten.divide.Scalar aten.divide.Tensor aten.dot.default aten.eq.Scalar
        aten.eq.Tensor aten.expand_as.default aten.floor_divide.default aten.fmax.default aten.fmin.default aten.fmod.Scalar
        aten.fmod.Tensor aten.ge.Scalar aten.ge.Tensor aten.gt.Scalar aten.gt.Tensor aten.hypot.default aten.ldexp.Tensor aten.le.Scalar
        aten.le.Tensor aten.logaddexp.default aten.logaddexp2.default aten.logical_and.default aten.logical_or.default
        aten.logical_xor.default aten.lt.Scalar aten.lt.Tensor aten.matmul.default aten.max.other aten.maximum.default aten.min.other
        aten.minimum.default aten.mm.default aten.mul.Scalar aten.mul.Tensor aten.multiply.Scalar aten.multiply.Tensor aten.mv.default
        aten.ne.Scalar aten.ne.Tensor aten.nextafter.default aten.remainder.Scalar aten.remainder.Scalar_Tensor aten.remainder.Tensor
        aten.reshape_as.default aten.special_xlog1py.default aten.special_xlog1py.other_scalar aten.special_xlog1py.self_scalar
        aten.true_divide.Scalar aten.true_divide.Tensor aten.type_as.default aten.view_as.default aten.xlogy.Scalar_Other
        aten.xlogy.Scalar_Self aten.xlogy.Tensor
    """,
    "self other alpha": """
        aten.add.Scalar aten.add.Tensor aten.rsub.Scalar aten.rsub.Tensor aten.sub.Scalar aten.sub.Tensor aten.subtract.Scalar
        aten.subtract.Tensor
    """,
    "self other non_blocking copy memory_format": "aten.to.other",
    "self other rounding_mode": "aten.div.Scalar_mode aten.div.Tensor_mode",
    "self output_size": """
        aten._adaptive_avg_pool2d.default aten._adaptive_avg_pool3d.default aten.adaptive_avg_pool1d.default
        aten.adaptive_avg_pool2d.default aten.adaptive_avg_pool3d.default aten.adaptive_max_pool1d.default aten.adaptive_max_pool2d.default
        aten.adaptive_max_pool3d.default
    """,
    "self output_size align_corners scales_h scales_w": "aten._upsample_bicubic2d_aa.default aten._upsample_bilinear2d_aa.default",
    "self output_size kernel_size dilation padding stride": "aten.col2im.default",
    "self output_size scale_factors": "aten.upsample_nearest1d.vec aten.upsample_nearest2d.vec",
    "self output_size scale_factors scales_w": "aten.upsample_nearest2d.default",
    "self p": "aten._pdist_forward.default aten.bernoulli.p aten.pdist.default",
    "self pad mode value": "aten.pad.default",
    "self pad value mode": "aten.constant_pad_nd.default",
    "self pivot check_errors": "aten._lu_with_info.default",
    "self rcond": "aten.pinverse.default",
    "self rcond hermitian": "aten.linalg_pinv.default aten.linalg_pinv.rcond_tensor",
    "self repeats": "aten.repeat.default aten.tile.default",
    "self repeats dim output_size": "aten.repeat_interleave.self_int",
    "self return_inverse return_counts dim": "aten.unique_consecutive.default",
    "self s dim norm": """
        aten.fft_fft2.default aten.fft_fftn.default aten.fft_hfft2.default aten.fft_hfftn.default aten.fft_ifft2.default
        aten.fft_ifftn.default aten.fft_ihfft2.default aten.fft_ihfftn.default aten.fft_irfft2.default aten.fft_irfftn.default
        aten.fft_rfft2.default aten.fft_rfftn.default
    """,
    "self sections dim": "aten.tensor_split.sections",
    "self shape broadcast_dimensions": "prims.broadcast_in_dim.default",
    "self shifts dims": "aten.roll.default",
    "self size": "aten._unsafe_view.default aten.broadcast_to.default aten.reshape.default aten.view.default",
    "self size dtype": "aten.new_empty.default aten.new_ones.default aten.new_zeros.default",
    "self size fill_value dtype": "aten.new_full.default",
    "self size implicit": "aten.expand.default",
    "self size stride storage_offset": "aten.as_strided.default",
    "self some": "aten.qr.default",
    "self some compute_uv": "aten.svd.default",
    "self sorted return_inverse return_counts": "aten._unique2.default",
    "self source destination": "aten.moveaxis.int aten.moveaxis.intlist aten.movedim.int aten.movedim.intlist",
    "self split_size dim": "aten.split.Tensor aten.unsafe_split.Tensor",
    "self split_sizes dim": "aten.split.sizes aten.split_with_sizes.default",
    "self src dim index": "aten.select_scatter.default",
    "self src dim start end step": "aten.slice_scatter.default",
    "self src non_blocking": "aten.copy.default",
    "self stable dim descending": "aten.argsort.stable aten.sort.stable",
    "self start_dim end_dim": "aten.flatten.using_ints",
    "self target margin reduction": "aten.hinge_embedding_loss.default",
    "self target reduction": "aten.l1_loss.default aten.mse_loss.default aten.soft_margin_loss.default",
    "self target reduction beta": "aten.smooth_l1_loss.default",
    "self target reduction delta": "aten.huber_loss.default",
    "self target reduction log_target": "aten.kl_div.default",
    "self target weight pos_weight reduction": "aten.binary_cross_entropy_with_logits.default",
    "self target weight reduction": "aten.binary_cross_entropy.default",
    "self target weight reduction ignore_index": """
        aten.nll_loss.default aten.nll_loss2d_forward.default aten.nll_loss_forward.default aten.nll_loss_nd.default
    """,
    "self target weight reduction ignore_index label_smoothing": "aten.cross_entropy_loss.default",
    "self tensor1 tensor2 value": "aten.addcdiv.default aten.addcmul.default",
    "self tensor_indices_or_sections dim": "aten.tensor_split.tensor_indices_or_sections",
    "self unbiased dim keepdim": "aten.std.default aten.var.default",
    "self upper": "aten.cholesky.default aten.cholesky_inverse.default aten.linalg_cholesky.default",
    "self upper check_errors": "aten.linalg_cholesky_ex.default",
    "self upscale_factor": "aten.pixel_shuffle.default",
    "self value": "aten.fill.Scalar aten.fill.Tensor",
    "self vec2": "aten.ger.default aten.outer.default",
    "self weight": "aten._prelu_kernel.default aten.prelu.default",
    "size dtype": "aten.empty.memory_format aten.ones.default aten.rand.default aten.randn.default aten.zeros.default",
    "size fill_value dtype": "aten.full.default",
    "start end dtype": "aten.arange.start",
    "start end step dtype": "aten.arange.start_step",
    "start end steps dtype": "aten.linspace.default",
    "tensors": "aten.broadcast_tensors.default aten.meshgrid.default",
    "tensors dim": "aten.cat.default aten.concat.default aten.concatenate.default aten.stack.default",
    "tensors indexing": "aten.meshgrid.indexing",
    "v g dim": "aten._weight_norm.default",
    "weight indices offsets scale_grad_by_freq mode sparse per_sample_weights include_last_offset padding_idx": """
        aten.embedding_bag.default aten.embedding_bag.padding_idx
    """,
    "weight indices padding_idx scale_grad_by_freq sparse": "aten.embedding.default",
    "x1 x2 dim eps": "aten.cosine_similarity.default",
    "x1 x2 p": "aten._euclidean_dist.default",
    "x1 x2 p compute_mode": "aten._cdist_forward.default aten.cdist.default",
    "x1 x2 p eps keepdim": "aten.pairwise_distance.default",
}
ROWS = {target: tuple(names.split()) for names, targets in _TARGETS.items() for target in targets.split()}
ONNX_ROWS = frozenset("""
        Abs Add AffineGrid And ArgMax ArgMin Attention AveragePool BatchNormalization Cast CastLike CausalConvWithState Celu CenterCropPad
        Clip Col2Im Concat ConcatFromSequence Constant ConstantOfShape Conv ConvTranspose CumProd CumSum DFT DepthToSpace Div Dropout Einsum
        Elu Equal Expand EyeLike Flatten GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
        GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
        LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool MaxUnpool
        Mean MeanVarianceNormalization Min Mish Mod Mul Neg NegativeLogLikelihoodLoss Not OneHot Or PRelu Pad Pow RMSNormalization RNN Range
        Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu
        Reshape Resize ReverseSequence RotaryEmbedding ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceLength Shape
        Shrink Sign Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Squeeze Sub Sum SwiGLU
        Swish TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Where Xor
""".split())
